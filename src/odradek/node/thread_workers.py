"""Workers in threads of this process: for small inputs, for tests, and for the simulator."""

from collections.abc import Callable, Generator
from typing import Final

from odradek.base.ports import Disk, Executor, Message, Pool, Program


class ThreadWorkers:
    def __init__(self, executor: Executor, disk: Disk, load_program: Callable[[Pool], Program]) -> None:
        self._executor: Final = executor
        self._disk: Final = disk
        self._load_program: Final = load_program

    def close(self) -> None:
        """Nothing to end: the threads belong to the executor."""

    def start(self, pool: Pool, request: Message, *, input_bytes: int) -> "ThreadTask":
        return ThreadTask(self._executor, pool, lambda: self._load_program(pool)(self._disk, request))


class ThreadTask:
    def __init__(self, executor: Executor, pool: Pool, begin: Callable[[], Generator[Message, None, None]]) -> None:
        self._executor: Final = executor
        self._pool: Final = pool
        self._begin: Final = begin
        self._messages: Generator[Message, None, None] | None = None
        self._is_running = False
        self._is_closed = False

    async def next(self) -> Message | None:
        assert not self._is_closed, "the task was closed"
        return await self._executor.run(self._advance, pool=self._pool)

    def close(self) -> None:
        self._is_closed = True
        # If the caller was cancelled while a thread works, the thread closes the generator.
        if not self._is_running:
            self._close_messages()

    def _advance(self) -> Message | None:
        self._is_running = True
        try:
            if self._messages is None:
                self._messages = self._begin()
            return next(self._messages, None)
        finally:
            self._is_running = False
            if self._is_closed:
                self._close_messages()

    def _close_messages(self) -> None:
        if self._messages is not None:
            self._messages.close()
