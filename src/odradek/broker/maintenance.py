"""Periodic tasks of a broker: retention, timed flushes, checkpoints, file removal, producer expiration, ISR shrinking.

Tasks that change a log run through its partition's `run_exclusively`. A disk failure is handled as in a client request.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Final

from odradek.broker.broker import Broker
from odradek.server.periodic import Periodic
from odradek.storage.log.log_dir import LogDir
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.segment import Segment
from odradek.storage.partition.partition import Partition

REMOVE_DELETED_INTERVAL_MS: Final = 1000
RELEASE_IDLE_INTERVAL_MS: Final = 60_000


class Maintenance:
    def __init__(self, broker: Broker, periodic: Periodic) -> None:
        self._broker = broker
        self._periodic = periodic

    def begin(self) -> None:
        broker = self._broker
        first_ms = broker.config.log_initial_task_delay_ms
        every = self._periodic.every
        every("retention", lambda: broker.config.log_retention_check_interval_ms, self.enforce_retention, first_ms)
        every("flush", lambda: min(broker.config.log_flush_scheduler_interval_ms, 2**31), self.flush_overdue, first_ms)
        every(
            "recovery point checkpoint",
            lambda: broker.config.log_flush_offset_checkpoint_interval_ms,
            self.checkpoint_recovery_points,
        )
        every(
            "log start checkpoint",
            lambda: broker.config.log_flush_start_offset_checkpoint_interval_ms,
            self.checkpoint_log_starts,
        )
        every(
            "high watermark checkpoint",
            lambda: broker.config.replica_high_watermark_checkpoint_interval_ms,
            self.checkpoint_high_watermarks,
        )
        every(
            "producer expiration", lambda: broker.config.producer_id_expiration_check_interval_ms, self.expire_producers
        )
        every("ISR shrinking", lambda: max(1, broker.config.replica_lag_time_max_ms // 2), self.shrink_isrs)
        every("removal of deleted files", lambda: REMOVE_DELETED_INTERVAL_MS, self.remove_deleted)
        every("release of idle files", lambda: RELEASE_IDLE_INTERVAL_MS, self.release_idle_files)

    async def enforce_retention(self) -> None:
        for partition in self._available():
            now_ms, high_watermark = self._broker.clock.wall_ms(), partition.high_watermark
            await self._run_exclusively(partition, methodcaller("delete_old_segments", now_ms, high_watermark))

    async def shrink_isrs(self) -> None:
        self._broker.shrink_isrs()

    async def flush_overdue(self) -> None:
        now_ms = self._broker.clock.wall_ms()
        for partition in self._available():
            if partition.sync_is_due(now_ms):
                try:
                    await partition.flush()
                except OSError as error:
                    self._broker.fail_log_dir(partition.log_dir, error)

    async def checkpoint_recovery_points(self) -> None:
        await self._in_dirs(LogDir.checkpoint_recovery_points)

    async def checkpoint_log_starts(self) -> None:
        await self._in_dirs(LogDir.checkpoint_log_starts)

    async def checkpoint_high_watermarks(self) -> None:
        offsets = {partition.name: partition.high_watermark for partition in self._broker.partitions().values()}
        await self._in_dirs(lambda log_dir: log_dir.checkpoint_high_watermarks(offsets))

    async def expire_producers(self) -> None:
        now_ms = self._broker.clock.wall_ms()
        for partition in self._available():
            await self._run_exclusively(partition, lambda log: log.producers.expire(now_ms))

    async def remove_deleted(self) -> None:
        now_ms = self._broker.clock.wall_ms()
        await self._in_dirs(lambda log_dir: log_dir.remove_deleted(now_ms))

    async def release_idle_files(self) -> None:
        for partition in self._available():
            idle = partition.log.find_idle_segments()
            if idle:
                # Exclusively: a writer must not write to a descriptor that is being closed.
                await self._run_exclusively(partition, partial(_release_all, idle))

    def _available(self) -> list[Partition]:
        return [one for one in self._broker.partitions().values() if one.unavailable is None]

    async def _run_exclusively(self, partition: Partition, work: Callable[[PartitionLog], object]) -> None:
        def work_if_available() -> None:
            """The partition may have been deleted, or its disk may have failed, while the job was queued."""
            if partition.unavailable is None:
                work(partition.log)

        try:
            await partition.run_exclusively(work_if_available)
        except OSError as error:
            self._broker.fail_log_dir(partition.log_dir, error)

    async def _in_dirs(self, work: Callable[[LogDir], None]) -> None:
        """In all log dirs side by side: none waits for the disk of another one."""
        await asyncio.gather(*(self._in_dir(one, work) for one in list(self._broker.log_dirs.online.values())))

    async def _in_dir(self, log_dir: LogDir, work: Callable[[LogDir], None]) -> None:
        try:
            await self._broker.threads_of(log_dir.path).run(partial(work, log_dir))
        except OSError as error:
            self._broker.fail_log_dir(log_dir.path, error)


def _release_all(segments: list[Segment], _: PartitionLog) -> None:
    for segment in segments:
        segment.release()
