from typing import TypeVar

from odradek.base.slices import Slices

T = TypeVar("T")


def run_and_count(slices: Slices[T]) -> tuple[T, int]:
    """The result, and the number of slices before the last one."""
    count = 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value, count
        count += 1
