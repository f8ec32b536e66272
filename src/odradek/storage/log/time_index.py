"""The time index of a segment (`.timeindex`): 8 bytes of timestamp, 4 bytes of relative offset.

No batch up to an entry's offset has a later timestamp than the entry. Both columns only increase.
"""

from struct import Struct
from typing import NamedTuple

from odradek.base.ports import Disk
from odradek.records.batch import NO_TIMESTAMP
from odradek.storage.log.index_file import IndexFile

_ENTRY = Struct(">qi")
_TIMESTAMP = Struct(">q")
_RELATIVE_OFFSET = Struct(">i")
_RELATIVE_OFFSET_AT = 8


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    __slots__ = ("last_offset", "last_timestamp")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(disk, path, base_offset, max_bytes, _ENTRY.size)
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base_offset

    def load(self) -> None:
        if self.entries < 0:
            entries = self.count_stored()
            last = self._last_of(entries)
            if self.entries < 0:
                self.last_timestamp, self.last_offset = last
                self.entries = entries

    def reset(self) -> None:
        super().reset()
        self._load_last()

    def _load_last(self) -> None:
        self.last_timestamp, self.last_offset = self._last_of(self.entries)

    def _last_of(self, entries: int) -> TimestampOffset:
        return self.entry(entries - 1) if entries else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = _ENTRY.unpack(self.read_entry(slot))
        return TimestampOffset(timestamp, self.base_offset + relative)

    @property
    def is_full(self) -> bool:
        # One slot is reserved for the entry that closing the segment adds.
        return self.entries >= self.max_entries - 1

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The entry with the latest timestamp that is at most `timestamp`."""
        self.load()
        if self.entries and timestamp >= self.last_timestamp:
            return TimestampOffset(self.last_timestamp, self.last_offset)
        slot = self.floor_slot(timestamp, 0, _TIMESTAMP)
        return self.entry(slot) if slot >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def write_ahead(self, ahead: int, timestamp: int, offset: int) -> None:
        """Writes an entry `ahead` slots after the last one; `commit` counts it once the log has the batch."""
        self.write_slot(self.entries + ahead, _ENTRY.pack(timestamp, offset - self.base_offset))

    def commit(self, count: int, timestamp: int, offset: int) -> None:
        assert self.entries <= 0 or (timestamp > self.last_timestamp and offset >= self.last_offset), (
            f"{self.path}: entry {timestamp} at {offset} after {self.last_timestamp} at {self.last_offset}"
        )
        self.last_timestamp = timestamp
        self.last_offset = offset
        self.entries += count

    def append_if_later(self, timestamp: int, offset: int) -> None:
        self.load()
        if timestamp > self.last_timestamp:
            self.write_ahead(0, timestamp, offset)
            self.commit(1, timestamp, offset)

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at or after this offset."""
        self.load()
        last_kept = self.floor_slot(offset - 1 - self.base_offset, _RELATIVE_OFFSET_AT, _RELATIVE_OFFSET)
        self.truncate_entries(last_kept + 1)

    def truncate_entries(self, entries: int) -> None:
        self.entries = entries
        self._load_last()
