"""The Executor port on virtual time: jobs take as long as their disk operations, and lanes keep their order.

A job takes effect at one instant between its start and its end, so that a crash can happen before it, or between its
effect and its completion. Two jobs never run at the same instant: races between threads within a job are not found.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, TypeVar

from odradek.base.ports import Pool
from odradek.sim.disk_port import VirtualDiskPort
from odradek.sim.process import Process, ProcessDied

T = TypeVar("T")

_DISPATCH_SECONDS: Final = 0.0001
# Sometimes a thread has to wait for a CPU.
_LATE_PROBABILITY: Final = 0.2
_LATE_SECONDS: Final = 0.02


class _Job:
    __slots__ = ("done", "threads", "work")

    def __init__(self, work: Callable[[], Any], done: asyncio.Future[Any], threads: "_Threads") -> None:
        self.work: Final = work
        self.done: Final = done
        self.threads: Final = threads


class _Threads:
    """Of a pool or a lane."""

    __slots__ = ("free", "waiting")

    def __init__(self, count: int) -> None:
        self.free = count
        self.waiting: Final[deque[_Job]] = deque()


class VirtualExecutor:
    def __init__(self, process: Process, disk: VirtualDiskPort, random: Random, pool_sizes: Mapping[Pool, int]) -> None:
        self._process: Final = process
        self._disk: Final = disk
        self._random: Final = random
        self._pool_sizes: Final = pool_sizes
        self._pools: Final = {pool: _Threads(pool_sizes[pool]) for pool in Pool}
        self._lanes: Final[dict[str, _Threads]] = {}
        self._directories: Final[dict[str, VirtualExecutor]] = {}

    def for_directory(self, path: str) -> "VirtualExecutor":
        threads = self._directories.get(path)
        if threads is None:
            threads = VirtualExecutor(self._process, self._disk, self._random, self._pool_sizes)
            self._directories[path] = threads
        return threads

    def abandon(self, path: str) -> None:
        """Simulated disks are slow or fail, but do not hang."""
        raise AssertionError(f"the simulated disk of {path} hangs")

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        threads = self._pools[pool] if lane is None else self._lanes.setdefault(lane, _Threads(1))
        done: asyncio.Future[T] = self._process.loop.create_future()
        threads.waiting.append(_Job(work, done, threads))
        self._begin_next(threads)
        return await done

    def _begin_next(self, threads: _Threads) -> None:
        while threads.free and threads.waiting:
            job = threads.waiting.popleft()
            # As with real threads, a job that has started cannot be cancelled.
            if not job.done.cancelled():
                threads.free -= 1
                is_late = self._random.random() < _LATE_PROBABILITY
                seconds = self._random.expovariate(1 / (_LATE_SECONDS if is_late else _DISPATCH_SECONDS))
                self._process.scheduler.call_at(self._process.now + seconds, self._take_effect, job)

    def _take_effect(self, job: _Job) -> None:
        process = self._process
        if not process.is_alive:
            return
        if process.paused_until > process.scheduler.now:
            process.scheduler.call_at(process.paused_until, self._take_effect, job)
            return
        result, error = None, None
        self._disk.job_seconds = 0.0
        process.scheduler.running = process
        try:
            result = job.work()
        except ProcessDied:
            return
        except Exception as raised:  # noqa: BLE001 - the caller receives it
            error = raised
        finally:
            seconds, self._disk.job_seconds = self._disk.job_seconds, None
            process.scheduler.running = None
        process.scheduler.call_after(seconds, self._finish, job, result, error)

    def _finish(self, job: _Job, result: Any, error: Exception | None) -> None:
        if not self._process.is_alive:
            return
        job.threads.free += 1
        self._process.loop.call_soon(self._complete, job.done, result, error)
        self._begin_next(job.threads)

    @staticmethod
    def _complete(done: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)
