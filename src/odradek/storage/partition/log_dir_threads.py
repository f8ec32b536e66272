"""The threads of each log dir. A disk that hangs keeps no thread that other log dirs need, and no caller waiting.

They report to the log dir's health which jobs are running. New logs are created in them, side by side.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Executor, Pool
from odradek.storage.log.log_dir_health import LogDirHealth
from odradek.storage.log.log_dirs import LogDirFailed, LogDirOffline, LogDirs, WantedLog
from odradek.storage.log.partition_log import PartitionLog

T = TypeVar("T")

WRITER_LANE: Final = "writer"
"""The only thread that appends to the logs of the log dir while its disk is slow."""


class LogDirThreads:
    """An Executor for the jobs of one log dir."""

    def __init__(self, path: str, executor: Executor, health: LogDirHealth | None = None) -> None:
        """`executor` has threads for this log dir alone."""
        self.path: Final = path
        self.health: Final = health or LogDirHealth()
        self._executor: Final = executor
        # In the order of their start, as the simulator needs it.
        self._waiters: Final[dict[asyncio.Future[Any], Pool]] = {}
        self._failure: OSError | None = None

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        """Raises the failure of a disk that hangs, also while `work` is running, and KafkaError for a read of a stalled
        disk."""
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = asyncio.ensure_future(self._executor.run(work, pool=pool, lane=lane))
        job.add_done_callback(partial(self._on_end, self.health.on_job_start(), waiter))
        self._waiters[waiter] = pool
        try:
            return await waiter
        except asyncio.CancelledError:
            job.cancel()
            raise
        finally:
            del self._waiters[waiter]

    def on_stall(self) -> None:
        """A read changes nothing, so its caller need not wait for the disk: it may also read other log dirs."""
        for waiter, pool in self._waiters.items():
            if pool is Pool.READ and not waiter.done():
                waiter.set_exception(KafkaError(ErrorCode.kafka_storage_error))

    def fail(self, error: OSError) -> None:
        """The disk hangs: all jobs fail, also those that are running."""
        self._failure = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def _on_end(self, number: int, waiter: "asyncio.Future[T]", job: "asyncio.Task[T]") -> None:
        self.health.on_job_end(number)
        error = None if job.cancelled() else job.exception()
        if waiter.done():
            return
        if job.cancelled():
            waiter.cancel()
        elif error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(job.result())


Created = PartitionLog | LogDirOffline | LogDirFailed


async def get_or_create(
    log_dirs: LogDirs,
    wanted: Sequence[WantedLog],
    *,
    is_new: bool = True,
    now_ms: int,
    threads_of: Callable[[str], LogDirThreads],
) -> list[Created]:
    """The partitions' logs; creates missing ones in the requested log dir, or in the one with the fewest partitions.

    Returns LogDirOffline instead of a log that cannot be created, or that may exist in an offline log dir, and
    LogDirFailed if the disk failed.
    """
    results: dict[TopicPartition, Created] = {}
    missing: dict[str, list[WantedLog]] = {}
    for one in wanted:
        log = log_dirs.get(one.name)
        if log is not None and log.topic_id == one.topic_id:
            results[one.name] = log
            continue
        try:
            if log is None:
                is_stalled: Callable[[str], bool] = lambda path: threads_of(path).health.is_stalled  # noqa: E731
                directory = log_dirs.choose_dir(one.directory_id, is_new=is_new, is_stalled=is_stalled).path
            else:
                directory = log_dirs.dir_of(log)
        except LogDirOffline as offline:
            results[one.name] = offline
        else:
            missing.setdefault(directory, []).append(one)
            log_dirs.online[directory].reserved += 1
    # Side by side: no log dir waits for the disk of another one.
    for created in await asyncio.gather(
        *(_create_in(log_dirs, threads_of(directory), some, now_ms) for directory, some in missing.items())
    ):
        results |= created
    return [results[one.name] for one in wanted]


async def _create_in(
    log_dirs: LogDirs, threads: LogDirThreads, wanted: Sequence[WantedLog], now_ms: int
) -> Mapping[TopicPartition, Created]:
    log_dir = log_dirs.online.get(threads.path)
    if log_dir is None:
        offline = LogDirOffline(f"log dir {threads.path} is not online")
        return {one.name: offline for one in wanted}
    try:
        created = await threads.run(partial(log_dirs.create_all, log_dir, wanted, now_ms))
    except OSError as error:
        # The disk hangs.
        failed = LogDirFailed(threads.path, error)
        return {one.name: failed for one in wanted}
    finally:
        log_dir.reserved -= len(wanted)
    log_dir.logs |= {name: log for name, log in created.items() if isinstance(log, PartitionLog)}
    return created
