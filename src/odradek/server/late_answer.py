"""An answer that comes later without a task of its own.

Most handlers that wait are coroutines. A long poll waits for a producer, thousands of times a second, and the reader's
latency is what it costs to wake it: here whoever has the answer calls `give`, and it is on its way to the socket
before `give` returns.
"""

import asyncio
from collections.abc import Callable
from typing import Any


class LateAnswer:
    lets_next_pass = False
    """Whether what was asked is done, or in line, and only its answer is late: then the client's next request, if it is
    of the same kind, need not wait for it."""

    def __init__(self) -> None:
        self._told: Callable[[Any], None] | None = None
        self._failed: Callable[[Exception], None] | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    def then(self, told: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Called once, before anything can be given: the connection says where the answer goes."""
        self._told = told
        self._failed = failed
        try:
            self.begin()
        except Exception as error:  # noqa: BLE001 - the connection is told
            self.break_off(error)

    def begin(self) -> None:
        """From now on an answer may be given."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Nobody waits any more. Must let go of everything."""
        self._is_over = True

    def give(self, response: Any) -> None:
        if not self._is_over:
            self._is_over = True
            assert self._told is not None
            self._told(response)

    def break_off(self, error: Exception) -> None:
        """A fault of ours: it must not reach the producer whose append woke this."""
        if not self._is_over:
            self._is_over = True
            assert self._failed is not None
            self._failed(error)


async def given(answer: LateAnswer) -> Any:
    """The answer, for who is a coroutine already."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answer.then(done.set_result, done.set_exception)
    try:
        return await done
    finally:
        answer.abandon()
