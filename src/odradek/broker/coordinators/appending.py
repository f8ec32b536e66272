"""How a coordinator's batches come into the log of its partition, as long as this broker leads it in the same epoch."""

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock
from odradek.records.batch import parse_batches
from odradek.storage.log.producer_state import Origin
from odradek.storage.partition.partition import Partition


class OutOfStep(Exception):
    """Somebody else has written to the partition."""


class Write(NamedTuple):
    """What has to be in the log before the next step is taken."""

    batches: list[tuple[bytearray, Callable[[int], None]]]
    """Each with whom to tell the offset of its first record."""
    then: Callable[[ErrorCode], None]
    transaction_version: int = 0


class Appender:
    def __init__(self, partition: Partition, *, clock: Clock, on_disk_failure: Callable[[str, OSError], None]) -> None:
        self.leader_epoch: Final = partition.leader_epoch
        self.end_offset = partition.log.log_end_offset
        self._partition: Final = partition
        self._clock: Final = clock
        self._on_disk_failure: Final = on_disk_failure

    def append(self, write: Write) -> ErrorCode | None:
        """None: the disk is slow, and this is to be done by `append_exclusively`."""
        partition = self._partition
        try:
            self._check_may_append()
            if not partition.can_append_now:
                return None
            for data, appended_at in write.batches:
                appended = partition.append(
                    memoryview(data),
                    parse_batches(data),
                    self._clock.wall_ms(),
                    Origin.COORDINATOR,
                    write.transaction_version,
                )
                self._appended(appended.first_offset, appended.last_offset, appended_at)
        except (KafkaError, OSError) as error:
            return self._code_of(error)
        partition.sync_if_needed()
        return ErrorCode.none

    async def append_exclusively(self, write: Write, is_active: Callable[[], bool]) -> ErrorCode:
        try:
            for data, appended_at in write.batches:
                appended = await self._partition.append_exclusively(
                    memoryview(data), parse_batches(data), Origin.COORDINATOR, write.transaction_version
                )
                if not is_active():
                    return ErrorCode.not_coordinator
                self._appended(appended.first_offset, appended.last_offset, appended_at)
            self._partition.sync_if_needed()
        except (KafkaError, OSError) as error:
            return self._code_of(error)
        return ErrorCode.none

    def _check_may_append(self) -> None:
        self._partition.check_leader()
        if self._partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        replication = self._partition.leader_state
        if replication is not None and replication.under_min_isr:
            raise KafkaError(ErrorCode.not_enough_replicas)

    def _appended(self, first_offset: int, last_offset: int, appended_at: Callable[[int], None]) -> None:
        if first_offset != self.end_offset:
            raise OutOfStep(f"appended at {first_offset}, where the end was thought to be at {self.end_offset}")
        self.end_offset = last_offset + 1
        appended_at(first_offset)

    def _code_of(self, error: KafkaError | OSError) -> ErrorCode:
        if isinstance(error, KafkaError):
            return error.code
        self._on_disk_failure(self._partition.log_dir, error)
        return ErrorCode.kafka_storage_error
