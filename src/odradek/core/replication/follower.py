"""One partition's bookkeeping while this broker follows another: what to fetch, and what to do with the answer.

The log is the truth: where to fetch from is always its end. Nothing is cut off unless the present leader has shown that
its own log differs there.

It must not know requests, sockets or other partitions. Times are seconds of a monotonic clock.
"""

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.core.replication.actions import (
    Action,
    Append,
    AskLeaderOffsets,
    ReportFault,
    TruncateFullyTo,
    TruncateTo,
    Wait,
)
from odradek.core.replication.epochs import UNDEFINED, EpochEnd, ReplicaLog, truncation_point

BACKOFF_FIRST_SECONDS: Final = 0.01
NOW: Final = -inf

# What goes away by itself: metadata reaches one broker sooner than the other.
_PASSING: Final = frozenset(
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
    """What a Fetch says of one partition."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """What the answer to it says, the records aside."""

    error: ErrorCode = ErrorCode.none
    high_watermark: int = UNDEFINED
    log_start_offset: int = UNDEFINED
    diverging: EpochEnd | None = None
    first_offset: int | None = None
    """Of the first batch. None: no records came."""


class Progress(NamedTuple):
    """What follows from an append, or from the answer without records."""

    high_watermark_moved: bool
    log_start_offset: int
    """Records below have been deleted by the leader."""


class FollowerState:
    def __init__(self, *, leader_id: int, leader_epoch: int, high_watermark: int, backoff_max_seconds: float) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        """Never above the own end. It does not fall because a new leader has yet to learn it; only truncation lowers
        it."""
        self.leader_high_watermark = UNDEFINED
        self._backoff_max_seconds: Final = backoff_max_seconds
        self._backoff_seconds = BACKOFF_FIRST_SECONDS
        self._fetches_from = NOW
        self._is_fenced = False
        self._is_asking_offsets = False

    # Asking

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """The metadata log names a leader. Answers to what was asked in an earlier epoch mean nothing any more."""
        if leader_epoch <= self.leader_epoch:
            return
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.leader_high_watermark = UNDEFINED
        self._is_fenced = False
        self._is_asking_offsets = False
        self._go_on()

    def position(self, log: ReplicaLog, now: float) -> FetchPosition | None:
        """What to fetch, None while there is nothing to ask for.

        Asking acknowledges everything before: where a topic syncs before it acknowledges, this has to wait for it.
        """
        if self._is_fenced or self._is_asking_offsets or now < self._fetches_from:
            return None
        return FetchPosition(self.leader_epoch, log.log_end_offset, _latest_epoch(log), log.log_start_offset)

    @property
    def fetches_from(self) -> float | None:
        """From when on there is a position. None: only something that happens brings it back."""
        return None if self._is_fenced or self._is_asking_offsets else self._fetches_from

    # Being answered

    def answered(self, log: ReplicaLog, asked: FetchPosition, answer: FetchAnswer, now: float) -> Action | None:
        """None: the answer is to a question that would not be asked any more."""
        if asked.leader_epoch != self.leader_epoch or not _is_end_of(log, asked):
            return None
        if answer.error is not ErrorCode.none:
            return self._refused(answer.error, now)
        if answer.diverging is not None:
            return self._diverged(log, answer.diverging, now)
        return self._received(log, answer, now)

    def failed(self, asked: FetchPosition, now: float) -> Wait | None:
        """No answer came: the connection broke, or could not be made."""
        if asked.leader_epoch != self.leader_epoch:
            return None
        return Wait(self._back_off(now), ErrorCode.network_exception)

    def leader_offsets(
        self, log: ReplicaLog, leader_epoch: int, leader_start_offset: int, leader_end_offset: int, now: float
    ) -> TruncateTo | TruncateFullyTo | Wait | None:
        """After AskLeaderOffsets. A log that reaches beyond the leader's was lost there by an unclean election; one
        that ends before the leader's begins has missed too much."""
        if leader_epoch != self.leader_epoch:
            return None
        self._is_asking_offsets = False
        if leader_end_offset < log.log_end_offset:
            self._go_on()
            return self._truncate_to(leader_end_offset)
        if leader_start_offset > log.log_end_offset:
            self._go_on()
            return TruncateFullyTo(leader_start_offset)
        return Wait(self._back_off(now), ErrorCode.offset_out_of_range)

    def leader_offsets_failed(self, leader_epoch: int, error: ErrorCode, now: float) -> Wait | ReportFault | None:
        if leader_epoch != self.leader_epoch:
            return None
        self._is_asking_offsets = False
        return self._wait(error, now)

    def _refused(self, error: ErrorCode, now: float) -> AskLeaderOffsets | Wait | ReportFault:
        if error is ErrorCode.offset_out_of_range:
            self._is_asking_offsets = True
            return AskLeaderOffsets()
        return self._wait(error, now)

    def _wait(self, error: ErrorCode, now: float) -> Wait | ReportFault:
        if error is ErrorCode.fenced_leader_epoch:
            self._is_fenced = True
            return Wait(None, error)
        until = self._back_off(now)
        return Wait(until, error) if error in _PASSING else ReportFault(until, f"the leader answers {error.name}")

    def _diverged(self, log: ReplicaLog, leader: EpochEnd, now: float) -> TruncateTo | ReportFault:
        """The records that came with it are left alone, and so are its offsets: they belong to another log yet."""
        if UNDEFINED in leader:
            return ReportFault(self._back_off(now), f"the leader's log parts from this one, but not at {leader}")
        offset = truncation_point(log, leader)
        if offset == log.log_end_offset and _latest_epoch(log) <= leader.epoch:
            # Nothing would be cut, neither records nor epochs, and the next answer would be the same.
            return ReportFault(self._back_off(now), f"the leader finds {leader} diverging, and it is not")
        self._go_on()
        return self._truncate_to(offset)

    def _truncate_to(self, offset: int) -> TruncateTo:
        return TruncateTo(offset, loses_committed=offset < self.high_watermark)

    def _received(self, log: ReplicaLog, answer: FetchAnswer, now: float) -> Append | ReportFault:
        end_offset = log.log_end_offset
        restart_at = None
        if answer.first_offset is not None and answer.first_offset < end_offset:
            if log.log_start_offset != end_offset:
                reason = f"records come from {answer.first_offset} on, the log already ends at {end_offset}"
                return ReportFault(self._back_off(now), reason)
            restart_at = answer.first_offset
        self._go_on()
        return Append(restart_at)

    # Having done it

    def appended(self, log: ReplicaLog, answer: FetchAnswer) -> Progress:
        """What `answered` wanted appended is in the log."""
        self.leader_high_watermark = answer.high_watermark
        reached = min(answer.high_watermark, log.log_end_offset)
        has_moved = reached > self.high_watermark
        if has_moved:
            self.high_watermark = reached
        return Progress(has_moved, max(log.log_start_offset, min(answer.log_start_offset, self.high_watermark)))

    def append_failed(self, asked: FetchPosition, reason: str, now: float) -> ReportFault | None:
        """What came cannot be used, damaged on its way or by its leader. It is asked for again."""
        if asked.leader_epoch != self.leader_epoch:
            return None
        return ReportFault(self._back_off(now), reason)

    def truncated(self, log: ReplicaLog) -> None:
        """The log was cut: nothing is committed here beyond its end, and nothing is missing before its start."""
        self.high_watermark = max(min(self.high_watermark, log.log_end_offset), log.log_start_offset)

    def has_all_committed(self, log: ReplicaLog) -> bool:
        """As far as the leader has told: in sync, or about to be."""
        return self.leader_high_watermark != UNDEFINED and log.log_end_offset >= self.leader_high_watermark

    @property
    def lag(self) -> int | None:
        """Records that are committed but not here as such. None: the leader has not told yet."""
        if self.leader_high_watermark == UNDEFINED:
            return None
        return max(0, self.leader_high_watermark - self.high_watermark)

    def _back_off(self, now: float) -> float:
        """Twice as long each time. The first pauses are short: most often a new leader has yet to hear of itself."""
        until = now + self._backoff_seconds
        self._fetches_from = until
        self._backoff_seconds = min(self._backoff_max_seconds, 2 * self._backoff_seconds)
        return until

    def _go_on(self) -> None:
        self._fetches_from = NOW
        self._backoff_seconds = BACKOFF_FIRST_SECONDS


def _latest_epoch(log: ReplicaLog) -> int:
    latest_epoch = log.epochs.latest_epoch
    return UNDEFINED if latest_epoch is None else latest_epoch


def _is_end_of(log: ReplicaLog, asked: FetchPosition) -> bool:
    """Also by its epoch: a log that was cut may have grown to the same length again."""
    return (asked.fetch_offset, asked.last_fetched_epoch) == (log.log_end_offset, _latest_epoch(log))
