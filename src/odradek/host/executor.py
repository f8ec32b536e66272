"""Threads for blocking work: a bounded number per pool, and one per lane. They are started when they are needed."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from odradek.base.ports import Pool

T = TypeVar("T")


class ThreadExecutor:
    def __init__(self, pool_sizes: Mapping[Pool, int]) -> None:
        self._pool_sizes: Final = pool_sizes
        self._pools: Final = {pool: _new_threads(pool_sizes[pool], pool.value) for pool in Pool}
        self._lanes: Final[dict[str, ThreadPoolExecutor]] = {}
        self._directories: Final[dict[str, ThreadExecutor]] = {}
        self._is_abandoned = False

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        threads = self._pools[pool] if lane is None else self._lane(lane)
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    def _lane(self, lane: str) -> ThreadPoolExecutor:
        threads = self._lanes.get(lane)
        if threads is None:
            threads = self._lanes[lane] = _new_threads(1, lane)
        return threads

    def for_directory(self, path: str) -> "ThreadExecutor":
        threads = self._directories.get(path)
        if threads is None:
            threads = self._directories[path] = ThreadExecutor(self._pool_sizes)
        return threads

    def abandon(self, path: str) -> None:
        self.for_directory(path)._is_abandoned = True

    @property
    def has_abandoned_threads(self) -> bool:
        """Whether the process has to end without its threads: an ordinary exit would wait for them forever."""
        return self._is_abandoned or any(one.has_abandoned_threads for one in self._directories.values())

    def close(self) -> None:
        for directory in self._directories.values():
            directory.close()
        for threads in (*self._pools.values(), *self._lanes.values()):
            threads.shutdown(wait=not self._is_abandoned, cancel_futures=True)


def _new_threads(count: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix=f"odradek-{name}")
