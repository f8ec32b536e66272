"""Chooses the segments to delete: below the log start, beyond retention.bytes, or older than retention.ms.

Always the oldest first, and never above the high watermark: the log start must not pass it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from odradek.storage.log.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log.partition_log import PartitionLog

# A segment and its successor, if any.
_Deletable = Callable[[Segment, Segment | None], bool]


def steps(log: "PartitionLog", now_ms: int, high_watermark: int) -> Iterator[int]:
    """For each rule, the number of segments to delete from the start. The caller deletes them between two steps."""
    yield _count(log, high_watermark, lambda _, following: _starts_below(following, log.log_start_offset))
    if not log.config.delete:
        return
    if log.config.retention_bytes >= 0:
        yield _count(log, high_watermark, _beyond_size(log.segments, log.config.retention_bytes))
    retention_ms = log.config.retention_ms
    if retention_ms >= 0:
        yield _count(log, high_watermark, lambda segment, _: now_ms - segment.largest_timestamp_ms > retention_ms)


def _count(log: "PartitionLog", high_watermark: int, deletable: _Deletable) -> int:
    segments = log.segments
    count = 0
    for slot, segment in enumerate(segments):
        following = segments[slot + 1] if slot + 1 < len(segments) else None
        end_offset = log.log_end_offset if following is None else following.base_offset
        if following is None and segment.size == 0:
            break
        if end_offset > high_watermark or not deletable(segment, following):
            break
        count += 1
    return count


def _starts_below(following: Segment | None, log_start_offset: int) -> bool:
    return following is not None and following.base_offset <= log_start_offset


def _beyond_size(segments: Sequence[Segment], retention_bytes: int) -> _Deletable:
    excess = sum(segment.size for segment in segments) - retention_bytes

    def deletable(segment: Segment, _: Segment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return deletable
