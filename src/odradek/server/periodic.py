"""Chores that come round: each in a task of its own, its interval read anew every time, its failures survived."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

logger = logging.getLogger(__name__)


class Periodic:
    """The chores of one node. An error in one round is logged; the next round comes all the same."""

    def __init__(self) -> None:
        # In the order of their beginning, in which they are stopped: a set has none that a second run would repeat.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def every(
        self,
        name: str,
        interval_ms: Callable[[], int],
        chore: Callable[[], Awaitable[None]],
        first_ms: int | None = None,
    ) -> None:
        self.once(self._repeat(name, interval_ms, chore, first_ms))

    def once(self, chore: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(chore)
        self._tasks[task] = None
        task.add_done_callback(self._forget)

    async def _repeat(
        self,
        name: str,
        interval_ms: Callable[[], int],
        chore: Callable[[], Awaitable[None]],
        first_ms: int | None,
    ) -> None:
        delay_ms = interval_ms() if first_ms is None else first_ms
        while True:
            await asyncio.sleep(delay_ms / 1000)
            try:
                await chore()
            except Exception:
                logger.exception("%s failed; it is tried again at its next turn", name)
            delay_ms = interval_ms()

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
