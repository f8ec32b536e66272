"""The offset index of a segment (`.index`): 4 bytes of relative offset, 4 bytes of file position.

It is sparse, with an entry about every index.interval.bytes. An entry contains the *last* offset of the batch at its
position.
"""

from struct import Struct
from typing import NamedTuple

from odradek.base.ports import Disk
from odradek.storage.log.index_file import IndexFile, WouldWait

_ENTRY = Struct(">ii")
_RELATIVE_OFFSET = Struct(">i")
_POSITION = Struct(">i")
_POSITION_AT = 4
RELATIVE_OFFSET_MAX = (1 << 31) - 1


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class OffsetIndex(IndexFile):
    __slots__ = ("last_offset", "last_position")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(disk, path, base_offset, max_bytes, _ENTRY.size)
        self.last_offset = base_offset
        self.last_position = 0

    def load(self) -> None:
        if self.entries < 0:
            entries = self.count_stored()
            last = self._last_of(entries)
            if self.entries < 0:
                self.last_offset, self.last_position = last
                self.entries = entries

    def reset(self) -> None:
        super().reset()
        self._load_last()

    def _load_last(self) -> None:
        self.last_offset, self.last_position = self._last_of(self.entries)

    def _last_of(self, entries: int) -> OffsetPosition:
        return self.entry(entries - 1) if entries else OffsetPosition(self.base_offset, 0)

    def entry(self, slot: int, *, cached: bool = False) -> OffsetPosition:
        relative, position = _ENTRY.unpack(self.read_entry(slot, cached=cached))
        return OffsetPosition(self.base_offset + relative, position)

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    def lookup(self, offset: int, *, cached: bool = False) -> OffsetPosition:
        """The entry with the largest offset that is at most `offset`; the start of the segment if there is none."""
        if cached and self.entries < 0:
            raise WouldWait
        self.load()
        if offset >= self.last_offset:
            return OffsetPosition(self.last_offset, self.last_position)
        slot = self.floor_slot(offset - self.base_offset, 0, _RELATIVE_OFFSET, cached=cached)
        return self.entry(slot, cached=cached) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def lookup_position(self, position: int, *, cached: bool = False) -> OffsetPosition:
        """The entry with the largest position that is at most `position`; the start of the segment if there is none."""
        if cached and self.entries < 0:
            raise WouldWait
        self.load()
        if position >= self.last_position:
            return OffsetPosition(self.last_offset, self.last_position)
        slot = self.floor_slot(position, _POSITION_AT, _POSITION, cached=cached)
        return self.entry(slot, cached=cached) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def write_ahead(self, ahead: int, offset: int, position: int) -> None:
        """Writes an entry `ahead` slots after the last one; `commit` counts it once the log has the batch."""
        self.write_slot(self.entries + ahead, _ENTRY.pack(offset - self.base_offset, position))

    def commit(self, count: int, offset: int, position: int) -> None:
        """Counts the entries written ahead; `offset` and `position` are those of the last one."""
        assert self.entries <= 0 or (offset > self.last_offset and position > self.last_position), (
            f"{self.path}: entry {offset} at {position} after {self.last_offset} at {self.last_position}"
        )
        self.last_offset = offset
        self.last_position = position
        self.entries += count

    def append(self, offset: int, position: int) -> None:
        self.write_ahead(0, offset, position)
        self.commit(1, offset, position)

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at or after this offset."""
        self.load()
        self.truncate_entries(self.floor_slot(offset - 1 - self.base_offset, 0, _RELATIVE_OFFSET) + 1)

    def truncate_entries(self, entries: int) -> None:
        self.entries = entries
        self._load_last()
