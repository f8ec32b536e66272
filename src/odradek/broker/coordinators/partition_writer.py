"""Appends a coordinator's batches to its partition, as long as this broker leads it in the same epoch."""

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock
from odradek.records.batch import parse_batches
from odradek.storage.log.producer_state import Origin
from odradek.storage.partition.partition import Partition


class UnexpectedOffset(Exception):
    """Another writer has appended to the partition."""


class Write(NamedTuple):
    """What has to be in the log before the next operation is executed."""

    batches: list[tuple[bytearray, Callable[[int], None]]]
    """Each with a callback for the offset of its first record."""
    on_appended: Callable[[ErrorCode], None]
    transaction_version: int = 0


class PartitionWriter:
    def __init__(self, partition: Partition, *, clock: Clock, on_disk_failure: Callable[[str, OSError], None]) -> None:
        self.leader_epoch: Final = partition.leader_epoch
        self.end_offset = partition.log.log_end_offset
        self._partition: Final = partition
        self._clock: Final = clock
        self._on_disk_failure: Final = on_disk_failure

    def append(self, write: Write) -> ErrorCode | None:
        """None: it may block on the disk. The caller has to use `append_exclusively`, for the remaining batches."""
        partition = self._partition
        try:
            self._check_leadership()
            while write.batches:
                data, replay = write.batches[0]
                batches, now_ms = parse_batches(data), self._clock.wall_ms()
                if not partition.can_append_now(memoryview(data), batches, now_ms):
                    return None
                appended = partition.append(
                    memoryview(data), batches, now_ms, Origin.COORDINATOR, write.transaction_version, has_room=True
                )
                del write.batches[0]
                self._replay(appended.first_offset, appended.last_offset, replay)
        except (KafkaError, OSError) as error:
            return self._error_code(error)
        partition.sync_if_needed()
        return ErrorCode.none

    async def append_exclusively(self, write: Write, is_active: Callable[[], bool]) -> ErrorCode:
        try:
            for data, replay in write.batches:
                appended = await self._partition.append_exclusively(
                    memoryview(data), parse_batches(data), Origin.COORDINATOR, write.transaction_version
                )
                if not is_active():
                    return ErrorCode.not_coordinator
                self._replay(appended.first_offset, appended.last_offset, replay)
            self._partition.sync_if_needed()
        except (KafkaError, OSError) as error:
            return self._error_code(error)
        return ErrorCode.none

    def _check_leadership(self) -> None:
        self._partition.check_leader()
        if self._partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        replication = self._partition.leader_state
        if replication is not None and replication.under_min_isr:
            raise KafkaError(ErrorCode.not_enough_replicas)

    def _replay(self, first_offset: int, last_offset: int, replay: Callable[[int], None]) -> None:
        if first_offset != self.end_offset:
            raise UnexpectedOffset(f"appended at offset {first_offset} instead of {self.end_offset}")
        self.end_offset = last_offset + 1
        replay(first_offset)

    def _error_code(self, error: KafkaError | OSError) -> ErrorCode:
        if isinstance(error, KafkaError):
            return error.code
        self._on_disk_failure(self._partition.log_dir, error)
        return ErrorCode.kafka_storage_error
