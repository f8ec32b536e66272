"""Runs long computations on the event loop, one slice at a time.

A thread would delay other connections more: it holds the interpreter lock for five milliseconds at a time, and every
system call of the event loop waits for it.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from odradek.base.slices import Slices

T = TypeVar("T")


class SliceTurns:
    """Runs one slice per turn of the event loop, no matter how many computations there are."""

    def __init__(self) -> None:
        # Wakes its waiters in order, so that the computations take turns.
        self._turn: Final = asyncio.Lock()

    def start(self, slices: Slices[T]) -> T | Awaitable[T]:
        """Runs the first slice immediately, which is enough for most requests. Returns the result, or awaits it."""
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
        return self.run(slices)

    async def run(self, slices: Slices[T]) -> T:
        """Returns the result of the computation. Raises what a slice raises."""
        while True:
            async with self._turn:
                try:
                    next(slices)
                except StopIteration as done:
                    result: T = done.value
                    return result
                await asyncio.sleep(0)
