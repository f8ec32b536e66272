"""Long computations in slices: a generator that yields between two slices and returns the result.

Computations do not know the event loop. `server/slices.py` runs them on it.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]


def run_at_once(slices: Slices[T]) -> T:
    """For a caller that other connections need not wait for, as in a test or in a thread."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
