"""Batches of idempotent producers that were refused for a reason that passes: not here yet, no leader, too few in sync.

A producer has several requests on their way. If the reason passes between two of them, the second finds a gap where the
first should be. Told so, librdkafka begins a new epoch for all partitions, and what others have stored but not
acknowledged is stored twice. Told the reason of the first, it sends both again in their order. Where nothing of the
producer is in the log yet, the second would even be taken for its first, and the first could never be stored.

Apache Kafka takes up a connection's next request only after it has answered the one before, and so hardly ever comes
into this.
"""

from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.records.batch import NO_SEQUENCE, BatchHeader
from odradek.storage.log.producer_entry import ProducerEntry

RETRIABLE_ERRORS: Final = frozenset(
    (
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    )
)
# By then whoever was refused has heard of it, and sends nothing more that builds on it.
REMEMBERED_MS_MAX: Final = 60_000
PRODUCERS_MAX: Final = 1000
PARTITIONS_MAX: Final = 1000


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    code: ErrorCode
    at_ms: int


class RejectedBatches:
    def __init__(self) -> None:
        self._by_producer: Final[dict[int, _Refused]] = {}

    def note(self, batch: BatchHeader, code: ErrorCode, now_ms: int) -> None:
        """The newest counts: whatever builds on an earlier one builds on it too."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        self._by_producer.pop(batch.producer_id, None)
        if len(self._by_producer) >= PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        self._by_producer[batch.producer_id] = _Refused(batch.producer_epoch, batch.base_sequence, code, now_ms)

    def reason_for_gap(self, batch: BatchHeader, known: ProducerEntry | None, now_ms: int) -> ErrorCode | None:
        """Why what should be before this batch is not in the log, if that is why."""
        refused = self._by_producer.get(batch.producer_id)
        if refused is None or batch.producer_epoch != refused.epoch or batch.base_sequence <= refused.sequence:
            return None
        if known is not None and (known.epoch != refused.epoch or known.last_sequence >= refused.sequence):
            return None
        return refused.code if now_ms - refused.at_ms <= REMEMBERED_MS_MAX else None


class RejectedBeforeCreation:
    """What was refused because the partition is not here: it may come between two requests."""

    def __init__(self) -> None:
        self._by_partition: Final[dict[tuple[UUID | str, int], RejectedBatches]] = {}

    def note(self, topic: UUID | str, index: int, batch: BatchHeader, code: ErrorCode, now_ms: int) -> None:
        """Under the name that the producer used."""
        if batch.base_sequence == NO_SEQUENCE or code not in RETRIABLE_ERRORS:
            return
        refused = self._by_partition.pop((topic, index), None) or RejectedBatches()
        if len(self._by_partition) >= PARTITIONS_MAX:
            del self._by_partition[next(iter(self._by_partition))]
        self._by_partition[topic, index] = refused
        refused.note(batch, code, now_ms)

    def take(self, topic: UUID | str, index: int) -> RejectedBatches | None:
        """For the partition, which is here now."""
        return self._by_partition.pop((topic, index), None)
