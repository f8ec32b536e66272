"""Batches of idempotent producers that a partition refused for a reason that passes: no leader yet, too few in sync.

A producer has several requests on their way. If the reason passes between two of them, the second finds a gap where the
first should be. Told so, librdkafka begins a new epoch for all partitions, and what others have stored but not
acknowledged is stored twice. Told the reason of the first, it sends both again in their order. Apache Kafka takes up a
connection's next request only after it has answered the one before, and so hardly ever comes into this.
"""

from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.log.producer_entry import ProducerEntry
from odradek.records.batch import NO_SEQUENCE, BatchHeader

PASSING: Final = frozenset((ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas))
# By then whoever was refused has heard of it, and sends nothing more that builds on it.
REMEMBERED_MS_MAX: Final = 60_000
PRODUCERS_MAX: Final = 1000


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    code: ErrorCode
    at_ms: int


class RefusedInPassing:
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
        if refused is None or known is None or known.epoch != refused.epoch or batch.producer_epoch != refused.epoch:
            return None
        is_recent = now_ms - refused.at_ms <= REMEMBERED_MS_MAX
        is_missing = known.last_sequence < refused.sequence < batch.base_sequence
        return refused.code if is_recent and is_missing else None
