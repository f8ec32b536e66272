"""Batches of idempotent producers that were rejected with a retriable error: unknown partition, no leader, small ISR,
stalled disk.

A producer has several requests in flight. If the error condition ends between two of them, the second batch finds a gap
where the first should be. If the producer then receives OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka starts a new epoch for
all partitions, and batches that were stored but not acknowledged are stored twice. If it receives the error of the
first batch instead, it resends both in order. If the log has no batch of the producer yet, the second batch would even
be accepted as its first, and the first could never be stored.

Apache Kafka processes a connection's next request only after it has responded to the previous one, so this rarely
happens there.
"""

from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.records.batch import NO_SEQUENCE, BatchHeader
from odradek.storage.log.producer_entry import ProducerEntry

RETRIABLE_ERRORS: Final = frozenset(
    (
        ErrorCode.kafka_storage_error,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    )
)
# By then the producer has received the error and sends no more batches that depend on the rejected one.
RETENTION_MS: Final = 60_000
PRODUCERS_MAX: Final = 1000
PARTITIONS_MAX: Final = 1000


class _Rejected(NamedTuple):
    epoch: int
    sequence: int
    code: ErrorCode
    at_ms: int


class RejectedBatches:
    def __init__(self) -> None:
        self._by_producer: Final[dict[int, _Rejected]] = {}

    def note(self, batch: BatchHeader, code: ErrorCode, now_ms: int) -> None:
        """Keeps the newest per producer: a batch that depends on an earlier one depends on it too."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        self._by_producer.pop(batch.producer_id, None)
        if len(self._by_producer) >= PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        self._by_producer[batch.producer_id] = _Rejected(batch.producer_epoch, batch.base_sequence, code, now_ms)

    def reason_for_gap(self, batch: BatchHeader, known: ProducerEntry | None, now_ms: int) -> ErrorCode | None:
        """The error of the rejected batch, if it explains the gap before this batch."""
        rejected = self._by_producer.get(batch.producer_id)
        if rejected is None or batch.producer_epoch != rejected.epoch or batch.base_sequence <= rejected.sequence:
            return None
        if known is not None and (known.epoch != rejected.epoch or known.last_sequence >= rejected.sequence):
            return None
        return rejected.code if now_ms - rejected.at_ms <= RETENTION_MS else None


class RejectedBeforeCreation:
    """Batches rejected because the partition is not on this broker: it may be created between two requests."""

    def __init__(self) -> None:
        self._by_partition: Final[dict[tuple[UUID | str, int], RejectedBatches]] = {}

    def note(self, topic: UUID | str, index: int, batch: BatchHeader, code: ErrorCode, now_ms: int) -> None:
        """`topic` is the name or the ID that the producer used."""
        if batch.base_sequence == NO_SEQUENCE or code not in RETRIABLE_ERRORS:
            return
        rejected = self._by_partition.pop((topic, index), None) or RejectedBatches()
        if len(self._by_partition) >= PARTITIONS_MAX:
            del self._by_partition[next(iter(self._by_partition))]
        self._by_partition[topic, index] = rejected
        rejected.note(batch, code, now_ms)

    def take(self, topic: UUID | str, index: int) -> RejectedBatches | None:
        """For the partition, which now exists on this broker."""
        return self._by_partition.pop((topic, index), None)
