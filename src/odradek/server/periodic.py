"""Periodic tasks: each runs in its own asyncio task, reads its interval before every round, and survives failures."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

from odradek.base.background import OnFault, report_fault, start_task

logger = logging.getLogger(__name__)


class Periodic:
    """The periodic tasks of one node. An error is logged; the next round runs as usual."""

    def __init__(self) -> None:
        # Stopped in the order in which they were started: a set's order would differ between simulator runs.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def every(
        self,
        name: str,
        interval_ms: Callable[[], int],
        work: Callable[[], Awaitable[None]],
        first_ms: int | None = None,
    ) -> None:
        self.once(name, self._repeat(name, interval_ms, work, first_ms))

    def once(self, name: str, work: Coroutine[None, None, None], on_fault: OnFault = report_fault) -> None:
        task = start_task(name, work, on_fault)
        self._tasks[task] = None
        task.add_done_callback(self._forget)

    async def _repeat(
        self,
        name: str,
        interval_ms: Callable[[], int],
        work: Callable[[], Awaitable[None]],
        first_ms: int | None,
    ) -> None:
        delay_ms = interval_ms() if first_ms is None else first_ms
        while True:
            await asyncio.sleep(delay_ms / 1000)
            try:
                await work()
            except Exception:
                logger.exception("Periodic task %s failed; it runs again at its next interval", name)
            delay_ms = interval_ms()

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
