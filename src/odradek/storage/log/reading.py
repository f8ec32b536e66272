"""Questions to a row of segments: batches by offset, records by time, aborted transactions. Changes nothing.

The row is in the order of offsets and is replaced, never changed, so that a reader in another thread sees one state.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from odradek.storage.log.names import OFFSET_MAX
from odradek.storage.log.segment import Segment, TimestampedOffset
from odradek.storage.log.transaction_index import AbortedTransaction

base_offset_of = attrgetter("base_offset")


class LogRead(NamedTuple):
    data: bytes
    # No offset at or above this one is in the data, and no batch between the data's end and this was passed over.
    next_offset: int
    # Where the data lies.
    segment_base_offset: int
    position: int


def floor_slot(segments: Sequence[Segment], offset: int) -> int:
    """Which segment is the last that begins at the offset or before it; the first if none does."""
    if offset >= segments[-1].base_offset:
        # Where nearly everybody reads.
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)


def read_batches(
    segments: Sequence[Segment], offset: int, max_bytes: int, end_offset: int, *, min_one_message: bool, cached: bool
) -> LogRead:
    """Whole batches of one segment, from the one that holds `offset`, none at or above `end_offset`.

    Raises WouldWait if `cached`, and something is not in memory.
    """
    slot = floor_slot(segments, offset)
    while offset < end_offset and slot < len(segments):
        segment = segments[slot]
        slot += 1
        limit_offset = segments[slot].base_offset if slot < len(segments) else OFFSET_MAX
        if end_offset >= limit_offset:
            end_position = segment.size
        else:
            limit_offset = end_offset
            end_position = segment.position_of(end_offset, cached=cached)
        found = segment.read(offset, max_bytes, end_position, min_one_message=min_one_message, cached=cached)
        if found is not None:
            next_offset = limit_offset if found.next_offset < 0 else found.next_offset
            return LogRead(found.data, next_offset, segment.base_offset, found.position)
    # Nothing, or only offsets that hold no record any more.
    last = segments[-1]
    return LogRead(b"", offset if offset > end_offset else end_offset, last.base_offset, last.size)


def find_timestamp(segments: Sequence[Segment], timestamp: int, from_offset: int) -> TimestampedOffset | None:
    """The first record at `from_offset` or later that is not older than `timestamp`."""
    for segment in segments[floor_slot(segments, from_offset) :]:
        if segment.largest_timestamp_ms >= timestamp:
            found = segment.find_timestamp(timestamp, from_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The first record that has the greatest timestamp of all."""
    return max(segments, key=lambda segment: segment.max_timestamp.timestamp).find_max_timestamp()


def aborted_transactions(segments: Sequence[Segment], from_offset: int, to_offset: int) -> list[AbortedTransaction]:
    """Those that reach into [from, to), by the order of their markers."""
    found: list[AbortedTransaction] = []
    for segment in segments[floor_slot(segments, from_offset) :]:
        entries, complete = segment.transaction_index.collect(from_offset, to_offset)
        found += entries
        if complete:
            break
    return found
