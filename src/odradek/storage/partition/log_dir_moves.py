"""Moves replicas between the log dirs of this broker (AlterReplicaLogDirs).

A future log grows beside the original in `<topic>-<n>.<id>-future`. Once it has caught up, the broker assigns the new
directory at the controller, pauses appends for the last batches, replaces the original and deletes it. A crash leaves
either a future log, which the next start continues, or two complete logs, one of which is deleted.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from odradek.base.background import start_task
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Clock, Pool
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.storage.log.log_copy import LogCopy, SourceUnreadable
from odradek.storage.log.log_dirs import LogDirs
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import Partition

logger = logging.getLogger(__name__)

THROTTLED_SECONDS_MAX: Final = 0.5
"""A changed limit takes effect after this time at the latest."""


class _Move:
    def __init__(self, partition: Partition, destination: str) -> None:
        self.partition: Final = partition
        self.source: Final = partition.log
        self.source_dir: Final = partition.log_dir
        self.destination: Final = destination
        # Completes once the future log exists on disk, or with the error.
        self.created: Final[asyncio.Future[PartitionLog]] = asyncio.get_running_loop().create_future()
        self.cancelled = False
        self.task: asyncio.Task[None]


class LogDirMoves:
    def __init__(
        self,
        log_dirs: LogDirs,
        *,
        clock: Clock,
        assign: Callable[[Partition, UUID], Awaitable[None]],
        threads_of: Callable[[str], LogDirThreads],
        throttle: ReplicationThrottle,
        on_disk_failure: Callable[[str, OSError], None],
    ) -> None:
        """`assign` reports a replica's directory to the controller, and raises KafkaError if it is rejected."""
        self._log_dirs: Final = log_dirs
        self._clock: Final = clock
        self._assign: Final = assign
        self._threads_of: Final = threads_of
        self._throttle: Final = throttle
        self._on_disk_failure: Final = on_disk_failure
        self._moves: Final[dict[TopicPartition, _Move]] = {}
        # As many concurrent moves as log dirs, Kafka's default.
        self._turn: Final = asyncio.Semaphore(max(1, len(log_dirs.online)))
        self._stopping = False

    # requests

    def destination(self, name: TopicPartition) -> str | None:
        """The log dir to which a partition is being moved."""
        move = self._moves.get(name)
        return None if move is None else move.destination

    async def start(self, partition: Partition, destination: str) -> None:
        """Returns once the future log exists; the move continues in the background. Raises OSError if it cannot be
        created."""
        await asyncio.shield(self._start(partition, destination, None).created)

    async def cancel(self, name: TopicPartition) -> None:
        """Cancels a move and deletes its future log. A move that is replacing the original completes."""
        move = self._moves.get(name)
        if move is not None:
            move.cancelled = True
            await asyncio.wait((move.task,))

    async def stop(self) -> None:
        """Pauses all moves: the next start of the node resumes them."""
        self._stopping = True
        await asyncio.gather(*(move.task for move in self._moves.values()))

    # at the start of a node

    def delete_duplicates(self, directory_of: Callable[[TopicPartition], UUID | None]) -> None:
        """If a crash left two complete logs of a replica, keeps the one in the directory that the controller knows."""
        by_name: dict[TopicPartition, list[PartitionLog]] = defaultdict(list)
        for log in self._log_dirs.logs():
            by_name[log.topic_partition].append(log)
        for name, logs in by_name.items():
            if len(logs) > 1:
                known = directory_of(name)
                ids = self._log_dirs.directory_ids
                kept = next((log for log in logs if ids.get(self._log_dirs.dir_of(log)) == known), logs[0])
                for log in logs:
                    if log is not kept:
                        self._log_dirs.delete(log, self._clock.wall_ms())

    def resume(self, partition_of: Callable[[TopicPartition], Partition | None]) -> None:
        """Resumes the moves that were unfinished when the node stopped."""
        for directory, log_dir in self._log_dirs.online.items():
            for name, log in log_dir.future_logs.items():
                partition = partition_of(name)
                if partition is not None and partition.log_dir != directory:
                    self._start(partition, directory, log)

    # moving

    def _start(self, partition: Partition, destination: str, copy: PartitionLog | None) -> _Move:
        move = _Move(partition, destination)
        self._moves[partition.name] = move
        move.task = start_task(f"log dir move of {partition.name}", self._run(move, copy))
        return move

    async def _run(self, move: _Move, copy: PartitionLog | None) -> None:
        name = move.partition.name
        try:
            if copy is None:
                copy = await self._threads_of(move.destination).run(lambda: self._create(move))
            move.created.set_result(copy)
            async with self._turn:
                moved = await self._move(move, LogCopy(move.source, copy))
            if moved:
                logger.info("Moved %s from log dir %s to %s", name, move.source_dir, move.destination)
            elif not self._is_worth_keeping(move):
                await self._threads_of(move.destination).run(lambda: self._delete(copy))
        except SourceUnreadable as unreadable:
            self._on_disk_failure(move.source_dir, unreadable.error)
        except OSError as error:
            if not move.created.done():
                move.created.set_exception(error)
            # The original is replaced in the thread of its own log dir.
            is_source = self._threads_of(move.source_dir).health.is_hung
            self._on_disk_failure(move.source_dir if is_source else move.destination, error)
        finally:
            del self._moves[name]

    async def _move(self, move: _Move, copy: LogCopy) -> bool:
        try:
            await self._threads_of(move.destination).run(lambda: copy.agree(self._clock.wall_ms()))
            if not await self._catch_up(move, copy):
                return False
            # Now, before appends are paused.
            await self._threads_of(move.destination).run(copy.copy.flush, pool=Pool.SYNC)
            return await self._assign_and_replace(move, copy)
        except KafkaError as error:
            logger.warning("Log dir move of %s to %s failed: %s", move.partition.name, move.destination, error)
            move.cancelled = True
            return False

    async def _catch_up(self, move: _Move, copy: LogCopy) -> bool:
        """Returns whether the future log is close enough to the end that appends may be paused for the rest."""
        threads = self._threads_of(move.destination)
        while not self._is_over(move):
            copied_bytes, caught_up = await threads.run(lambda: copy.advance(self._clock.wall_ms()))
            self._throttle.count(copied_bytes, self._clock.monotonic())
            if caught_up:
                return True
            await self._wait_for_throttle(move)
        return False

    async def _wait_for_throttle(self, move: _Move) -> None:
        """The limit applies to all moves together and may change meanwhile."""
        while True:
            now = self._clock.monotonic()
            seconds = self._throttle.frees_at(now) - now
            await asyncio.sleep(min(seconds, THROTTLED_SECONDS_MAX))
            if seconds <= 0 or self._is_over(move):
                return

    async def _assign_and_replace(self, move: _Move, copy: LogCopy) -> bool:
        """Assigns the new directory first: if a disk then fails, the controller knows which replicas are offline."""
        ids = self._log_dirs.directory_ids
        source_id, destination_id = ids.get(move.source_dir), ids.get(move.destination)
        if source_id is None or destination_id is None:
            return False
        await self._assign(move.partition, destination_id)
        moved = False
        try:
            moved = await self._catch_up(move, copy) and await self._replace_original(move, copy)
        finally:
            if not moved:
                await self._assign(move.partition, source_id)
        return moved

    async def _replace_original(self, move: _Move, copy: LogCopy) -> bool:
        partition = move.partition

        def finish() -> bool:
            if self._is_over(move):
                return False
            copy.finish(self._clock.wall_ms())
            self._log_dirs.promote(copy.copy)
            return True

        moved = False

        def publish(finished: bool) -> None:
            nonlocal moved
            # If the original's disk failed meanwhile, the partition is offline: its new log must not be served.
            if finished and partition.unavailable is not ErrorCode.kafka_storage_error:
                partition.relocate(copy.copy, self._threads_of(move.destination))
                moved = True

        await partition.run_exclusively(finish, publish)
        if not moved:
            return False
        try:
            await self._threads_of(move.source_dir).run(lambda: self._delete(move.source))
        except OSError as error:
            self._on_disk_failure(move.source_dir, error)
        return True

    def _create(self, move: _Move) -> PartitionLog:
        partition = move.partition
        return self._log_dirs.create_future(
            partition.name, partition.topic_id, move.source.config, move.destination, self._clock.wall_ms()
        )

    def _delete(self, log: PartitionLog) -> None:
        self._log_dirs.delete(log, self._clock.wall_ms())

    def _is_over(self, move: _Move) -> bool:
        return (
            self._stopping
            or move.cancelled
            or move.partition.unavailable is not None
            or move.destination not in self._log_dirs.online
        )

    def _is_worth_keeping(self, move: _Move) -> bool:
        """Whether the next start may resume with this future log, or it is the only readable copy."""
        return not move.cancelled and (self._stopping or move.partition.unavailable is ErrorCode.kafka_storage_error)
