"""Chooses the log to compact next, and its dirty range: from the end of the last pass to the first uncleanable offset.

It blocks, because it reads segments. It uses only values captured beforehand, so it may run in a thread while the log
is written.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The state of a compacted log at one moment."""

    partition: TopicPartition
    log: PartitionLog
    config: TopicConfig
    segments: Sequence[Segment]
    log_start_offset: int
    log_end_offset: int
    # The last stable offset: nothing from here on may be cleaned.
    stable_offset: int
    # The end of the last pass, if there was one.
    clean_offset: int | None

    @classmethod
    def of(cls, log: PartitionLog, *, stable_offset: int, clean_offset: int | None) -> "Candidate":
        return cls(
            partition=log.topic_partition,
            log=log,
            config=log.config,
            segments=tuple(log.segments),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            stable_offset=stable_offset,
            clean_offset=clean_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    candidate: Candidate
    first_dirty_offset: int
    # The base offset of a segment: whole segments are cleaned.
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    # The time by which max.compaction.lag.ms is exceeded.
    overdue_ms: int
    # The checkpointed offset is outside the log.
    checkpoint_is_wrong: bool

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        if self.overdue_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.dirty_ratio > self.candidate.config.min_cleanable_dirty_ratio


def measure(candidate: Candidate, now_ms: int) -> LogToClean:
    first_dirty_offset, checkpoint_is_wrong = _first_dirty_offset(candidate)
    segments = candidate.segments
    active = segments[-1]
    dirty = [segment for segment in _from_offset(segments, first_dirty_offset) if segment is not active]
    limits = [candidate.stable_offset, active.base_offset]
    min_lag_ms = candidate.config.min_compaction_lag_ms
    if min_lag_ms > 0:
        young = (one.base_offset for one in dirty if one.largest_timestamp_ms > now_ms - min_lag_ms)
        limits.append(next(young, active.base_offset))
    uncleanable_offset = max(first_dirty_offset, min(limits))
    first_uncleanable_offset = _from_offset(segments, min(uncleanable_offset, active.base_offset))[0].base_offset
    cleanable_from = min(first_dirty_offset, first_uncleanable_offset)
    cleanable = (one for one in _from_offset(segments, cleanable_from) if one.base_offset < first_uncleanable_offset)
    return LogToClean(
        candidate=candidate,
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=first_uncleanable_offset,
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty_offset),
        cleanable_bytes=sum(segment.size for segment in cleanable),
        overdue_ms=_overdue_ms(candidate.config, dirty, now_ms),
        checkpoint_is_wrong=checkpoint_is_wrong,
    )


def dirtiest_first(logs: Iterable[LogToClean]) -> list[LogToClean]:
    """The logs that are due for cleaning."""
    return sorted((one for one in logs if one.is_due), key=lambda one: one.dirty_ratio, reverse=True)


def _first_dirty_offset(candidate: Candidate) -> tuple[int, bool]:
    """If the checkpoint is outside the log, because of truncation or corruption, the whole log is dirty."""
    clean_offset = candidate.clean_offset
    if clean_offset is None:
        return candidate.log_start_offset, False
    if candidate.log_start_offset <= clean_offset <= candidate.log_end_offset:
        return clean_offset, False
    return candidate.log_start_offset, True


def _from_offset(segments: Sequence[Segment], offset: int) -> Sequence[Segment]:
    """The segments from the one that contains the offset on."""
    above = next((slot for slot, segment in enumerate(segments) if segment.base_offset > offset), len(segments))
    return segments[max(0, above - 1) :]


def _overdue_ms(config: TopicConfig, dirty: Sequence[Segment], now_ms: int) -> int:
    timestamps = (segment.first_batch_timestamp for segment in dirty)
    earliest = min((timestamp for timestamp in timestamps if timestamp > 0), default=None)
    if earliest is None:
        return 0
    return max(0, now_ms - max(config.max_compaction_lag_ms, 0) - earliest)
