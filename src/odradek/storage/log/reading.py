"""Reads from a list of segments: batches by offset, records by timestamp, aborted transactions. Changes nothing.

The list is ordered by offset and is replaced, never modified, so that a reader in another thread sees one state.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from odradek.storage.log.file_range import FileRange
from odradek.storage.log.index_file import WouldWait
from odradek.storage.log.names import OFFSET_MAX
from odradek.storage.log.segment import Segment, TimestampedOffset
from odradek.storage.log.transaction_index import AbortedTransaction

base_offset_of = attrgetter("base_offset")


class LogRead(NamedTuple):
    data: bytes
    # The data contains no offset at or above this one, and no batch before it was skipped.
    next_offset: int
    # The location of the data.
    segment_base_offset: int
    position: int


def floor_slot(segments: Sequence[Segment], offset: int) -> int:
    """The index of the last segment that starts at or before the offset; 0 if there is none."""
    if offset >= segments[-1].base_offset:
        # Most reads are in the last segment.
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)


class LogRange(NamedTuple):
    """Whole batches of one segment that were found, but not read."""

    # None if there are no batches.
    batches: FileRange | None
    # As in LogRead.
    next_offset: int
    segment_base_offset: int
    position: int

    @property
    def size(self) -> int:
        return 0 if self.batches is None else len(self.batches)

    def read(self, *, cached: bool) -> LogRead:
        """Raises WouldWait if `cached` and a page is not in the page cache, and RangeEnded."""
        data = b"" if self.batches is None else self.batches.read(cached=cached)
        if data is None:
            raise WouldWait
        return LogRead(data, self.next_offset, self.segment_base_offset, self.position)


def find_batches(
    segments: Sequence[Segment], offset: int, max_bytes: int, end_offset: int, *, min_one_message: bool, cached: bool
) -> LogRange:
    """Whole batches of one segment, from the one that contains `offset` on, below `end_offset`.

    Raises WouldWait if `cached` and a page that is needed to find them is not in the page cache.
    """
    slot = floor_slot(segments, offset)
    while offset < end_offset and slot < len(segments):
        segment = segments[slot]
        slot += 1
        extent = segment.log.extent
        limit_offset = segments[slot].base_offset if slot < len(segments) else OFFSET_MAX
        if end_offset >= limit_offset:
            end_position = segment.size
        else:
            limit_offset = end_offset
            end_position = segment.position_of(end_offset, cached=cached)
        found = segment.find_batches(offset, max_bytes, end_position, min_one_message=min_one_message, cached=cached)
        if found is not None:
            next_offset = limit_offset if found.next_offset < 0 else found.next_offset
            position, size, _ = found
            batches = None
            if size:
                file = segment.log.open_file() if cached else segment.log.file()
                batches = FileRange(file, extent, position, size)
            return LogRange(batches, next_offset, segment.base_offset, position)
    # No batch, or only offsets whose records were removed.
    last = segments[-1]
    return LogRange(None, offset if offset > end_offset else end_offset, last.base_offset, last.size)


def find_timestamp(segments: Sequence[Segment], timestamp: int, from_offset: int) -> TimestampedOffset | None:
    """The first record at or after `from_offset` with this or a later timestamp."""
    for segment in segments[floor_slot(segments, from_offset) :]:
        if segment.largest_timestamp_ms >= timestamp:
            found = segment.find_timestamp(timestamp, from_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The first record that has the max timestamp."""
    return max(segments, key=lambda segment: segment.max_timestamp.timestamp).find_max_timestamp()


def aborted_transactions(segments: Sequence[Segment], from_offset: int, to_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions that overlap [from, to), ordered by their markers."""
    found: list[AbortedTransaction] = []
    for segment in segments[floor_slot(segments, from_offset) :]:
        entries, complete = segment.transaction_index.collect(from_offset, to_offset)
        found += entries
        if complete:
            break
    return found
