"""The replication state of a partition while this broker follows another: what to fetch, what to do with the response.

The fetch offset is always the end of the log. The log is truncated only where the current leader has shown that its own
log differs.

It must not know requests, sockets or other partitions. Times are seconds of a monotonic clock.
"""

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.core.replication.effects import (
    Append,
    BackOff,
    Effect,
    FetchLeaderOffsets,
    ReportFault,
    TruncateFullyTo,
    TruncateTo,
)
from odradek.core.replication.epochs import UNDEFINED, EpochEnd, ReplicaLog, truncation_point
from odradek.core.replication.high_watermark import HighWatermark

BACKOFF_FIRST_SECONDS: Final = 0.01
NOW: Final = -inf

# Expected while metadata reaches one broker sooner than the other.
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.replica_not_available,
        ErrorCode.network_exception,
    }
)


class FetchPosition(NamedTuple):
    """One partition of a Fetch request."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """One partition of a Fetch response, without the records."""

    error: ErrorCode = ErrorCode.none
    high_watermark: int = UNDEFINED
    log_start_offset: int = UNDEFINED
    diverging: EpochEnd | None = None
    first_offset: int | None = None
    """Base offset of the first batch. None: the response has no records."""


class FollowerState:
    def __init__(
        self, *, leader_id: int, leader_epoch: int, high_watermark: HighWatermark, backoff_max_seconds: float
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.leader_high_watermark = UNDEFINED
        self.shared_high_watermark: Final = high_watermark
        self._backoff_max_seconds: Final = backoff_max_seconds
        self._backoff_seconds = BACKOFF_FIRST_SECONDS
        self._next_fetch_at = NOW
        self._is_fenced = False
        self._is_fetching_leader_offsets = False

    @property
    def high_watermark(self) -> int:
        """Never above the end of the log. A new leader that does not know it yet does not lower it."""
        return self.shared_high_watermark.offset

    # Requests

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """The metadata log names a new leader. Responses to requests of an earlier epoch are ignored from now on."""
        if leader_epoch <= self.leader_epoch:
            return
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.leader_high_watermark = UNDEFINED
        self._is_fenced = False
        self._is_fetching_leader_offsets = False
        self._reset_backoff()

    def fetch_position(self, log: ReplicaLog, now: float) -> FetchPosition | None:
        """What to fetch now; None while this partition must not be fetched.

        A Fetch acknowledges everything before its offset: if the topic syncs before it acknowledges, sync first.
        """
        if self._is_fenced or self._is_fetching_leader_offsets or now < self._next_fetch_at:
            return None
        return FetchPosition(self.leader_epoch, log.log_end_offset, _latest_epoch(log), log.log_start_offset)

    @property
    def next_fetch_at(self) -> float | None:
        """From when on there is a fetch position. None: only an event makes fetching possible again."""
        return None if self._is_fenced or self._is_fetching_leader_offsets else self._next_fetch_at

    # Responses

    def on_fetch_response(
        self, log: ReplicaLog, requested: FetchPosition, response: FetchResponse, now: float
    ) -> Effect | None:
        """None: the leader epoch or the log has changed since the request, and the response is ignored."""
        if requested.leader_epoch != self.leader_epoch or not _is_end_of(log, requested):
            return None
        if response.error is not ErrorCode.none:
            return self._on_error(response.error, now)
        if response.diverging is not None:
            return self._on_divergence(log, response.diverging, now)
        return self._on_records(log, response, now)

    def on_fetch_failure(self, requested: FetchPosition, now: float) -> BackOff | None:
        """The connection failed before the response arrived."""
        if requested.leader_epoch != self.leader_epoch:
            return None
        return BackOff(self._back_off(now), ErrorCode.network_exception)

    def on_leader_offsets(
        self, log: ReplicaLog, leader_epoch: int, leader_start_offset: int, leader_end_offset: int, now: float
    ) -> TruncateTo | TruncateFullyTo | BackOff | None:
        """The response to FetchLeaderOffsets. If this log is longer than the leader's, an unclean election lost the
        rest; if it ends before the leader's log starts, the follower has missed records that were deleted."""
        if leader_epoch != self.leader_epoch:
            return None
        self._is_fetching_leader_offsets = False
        if leader_end_offset < log.log_end_offset:
            self._reset_backoff()
            return self._truncate_to(leader_end_offset)
        if leader_start_offset > log.log_end_offset:
            self._reset_backoff()
            return TruncateFullyTo(leader_start_offset)
        return BackOff(self._back_off(now), ErrorCode.offset_out_of_range)

    def on_leader_offsets_failure(
        self, leader_epoch: int, error: ErrorCode, now: float
    ) -> BackOff | ReportFault | None:
        if leader_epoch != self.leader_epoch:
            return None
        self._is_fetching_leader_offsets = False
        return self._back_off_after(error, now)

    def _on_error(self, error: ErrorCode, now: float) -> FetchLeaderOffsets | BackOff | ReportFault:
        if error is ErrorCode.offset_out_of_range:
            self._is_fetching_leader_offsets = True
            return FetchLeaderOffsets()
        return self._back_off_after(error, now)

    def _back_off_after(self, error: ErrorCode, now: float) -> BackOff | ReportFault:
        if error is ErrorCode.fenced_leader_epoch:
            self._is_fenced = True
            return BackOff(None, error)
        until = self._back_off(now)
        return BackOff(until, error) if error in _RETRIABLE else ReportFault(until, f"the leader returned {error.name}")

    def _on_divergence(self, log: ReplicaLog, leader: EpochEnd, now: float) -> TruncateTo | ReportFault:
        """Ignores the records and offsets of the response: they do not belong to this log until it is truncated."""
        if UNDEFINED in leader:
            return ReportFault(self._back_off(now), f"the leader reported a divergence without an offset: {leader}")
        offset = truncation_point(log, leader)
        if offset == log.log_end_offset and _latest_epoch(log) <= leader.epoch:
            # Truncation would remove neither records nor epochs, and the next response would be the same.
            return ReportFault(self._back_off(now), f"the leader reported a divergence at {leader} where there is none")
        self._reset_backoff()
        return self._truncate_to(offset)

    def _truncate_to(self, offset: int) -> TruncateTo:
        assert offset >= 0, f"truncation to the negative offset {offset}"
        return TruncateTo(offset, loses_committed=offset < self.high_watermark)

    def _on_records(self, log: ReplicaLog, response: FetchResponse, now: float) -> Append | ReportFault:
        end_offset = log.log_end_offset
        restart_at = None
        if response.first_offset is not None and response.first_offset < end_offset:
            if log.log_start_offset != end_offset:
                reason = f"fetched records start at {response.first_offset}, before the log end {end_offset}"
                return ReportFault(self._back_off(now), reason)
            restart_at = response.first_offset
        self._reset_backoff()
        return Append(restart_at)

    # After the log has changed

    def on_append(self, log: ReplicaLog, response: FetchResponse) -> int:
        """The records of the response are in the log. Returns the offset to which the log start may advance: the
        leader has deleted the records below."""
        self.leader_high_watermark = response.high_watermark
        self.shared_high_watermark.advance_to(min(response.high_watermark, log.log_end_offset))
        assert self.high_watermark <= log.log_end_offset, (
            f"high watermark {self.high_watermark} is above the log end {log.log_end_offset}"
        )
        return max(log.log_start_offset, min(response.log_start_offset, self.high_watermark))

    def on_append_failure(self, requested: FetchPosition, reason: str, now: float) -> ReportFault | None:
        """The fetched records are corrupt or could not be appended. They are fetched again."""
        if requested.leader_epoch != self.leader_epoch:
            return None
        return ReportFault(self._back_off(now), reason)

    def has_all_committed(self, log: ReplicaLog) -> bool:
        """Whether the log has everything that the leader last reported as committed."""
        return self.leader_high_watermark != UNDEFINED and log.log_end_offset >= self.leader_high_watermark

    @property
    def lag(self) -> int | None:
        """Records between the own and the leader's high watermark. None: the leader's is not known yet."""
        if self.leader_high_watermark == UNDEFINED:
            return None
        return max(0, self.leader_high_watermark - self.high_watermark)

    def _back_off(self, now: float) -> float:
        """Doubles each time. The first delays are short because a new leader usually becomes ready soon."""
        until = now + self._backoff_seconds
        self._next_fetch_at = until
        self._backoff_seconds = min(self._backoff_max_seconds, 2 * self._backoff_seconds)
        return until

    def _reset_backoff(self) -> None:
        self._next_fetch_at = NOW
        self._backoff_seconds = BACKOFF_FIRST_SECONDS


def _latest_epoch(log: ReplicaLog) -> int:
    latest_epoch = log.epochs.latest_epoch
    return UNDEFINED if latest_epoch is None else latest_epoch


def _is_end_of(log: ReplicaLog, requested: FetchPosition) -> bool:
    """Compares the last epoch too: a truncated log may have grown to the same length again."""
    return (requested.fetch_offset, requested.last_fetched_epoch) == (log.log_end_offset, _latest_epoch(log))
