"""Threads for blocking work: a few shared ones, and one per lane."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ThreadExecutor:
    def __init__(self, shared_threads: int) -> None:
        self._shared = ThreadPoolExecutor(shared_threads, thread_name_prefix="odradek-worker")
        self._lanes: dict[str, ThreadPoolExecutor] = {}

    async def run(self, work: Callable[[], T], *, lane: str | None = None) -> T:
        pool = self._shared if lane is None else self._lane(lane)
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def _lane(self, lane: str) -> ThreadPoolExecutor:
        pool = self._lanes.get(lane)
        if pool is None:
            pool = self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=f"odradek-{lane}")
        return pool

    def close(self) -> None:
        for pool in (self._shared, *self._lanes.values()):
            pool.shutdown(wait=True, cancel_futures=True)
