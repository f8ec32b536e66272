"""The common part of offset and time index: sorted entries of fixed size in a file, searched without a memory map.

With a memory map a disk error would kill the process by a signal, so entries are read and written by position. As in
Kafka, the index file of the active segment has its maximum size; `entries` is the number of valid entries. The file is
trimmed when the segment rolls or closes. Bytes after `entries` are never read, so a failed append is harmless: the next
one overwrites it.
"""

import contextlib
from struct import Struct

from odradek.base.ports import Disk, DiskFile
from odradek.storage.log.lazy_file import LazyFile

# The size of the single read that ends a binary search.
_BLOCK_BYTES = 4096


class WouldWait(Exception):
    """The page is not in the page cache, and the caller does not want to block."""


class CorruptIndex(Exception):
    """The index does not match its segment; it is rebuilt from the log."""


class IndexFile:
    """A sorted index; `load` sets `entries` on first use."""

    __slots__ = ("_disk", "base_offset", "entries", "entry_size", "handle", "max_bytes", "max_entries")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int, entry_size: int) -> None:
        self._disk = disk
        self.handle = LazyFile(disk, path)
        self.base_offset = base_offset
        self.max_bytes = max_bytes - max_bytes % entry_size
        self.max_entries = max_bytes // entry_size
        self.entry_size = entry_size
        self.entries = -1

    def load(self) -> None:
        """Derives the number of entries from the file size, which is right unless the active segment was not closed.

        Several threads may call this at once, one of them to write: the first that completes wins.
        """
        raise NotImplementedError

    def count_stored(self) -> int:
        return self.file().size() // self.entry_size

    def create(self) -> None:
        """Creates an empty index of a new active segment; overwrites an old file of that name."""
        self.reset()
        self.file().truncate(self.max_bytes)

    def reset(self) -> None:
        """Empties the index; creates the file if necessary."""
        self.handle.create().truncate(0)
        self.entries = 0

    def file(self) -> DiskFile:
        return self.handle.get()

    @property
    def path(self) -> str:
        return self.handle.path

    @path.setter
    def path(self, path: str) -> None:
        self.handle.path = path

    def reserve(self) -> None:
        """Extends the file to its maximum size, for a segment that is active again."""
        self.load()
        if self.file().size() != self.max_bytes and self.entries * self.entry_size <= self.max_bytes:
            self.file().truncate(self.max_bytes)

    def trim(self) -> None:
        self.load()
        size = self.entries * self.entry_size
        if self.file().size() != size:
            self.file().truncate(size)

    def write_slot(self, slot: int, entry: bytes) -> None:
        self.file().write_at(slot * self.entry_size, entry)
        self.handle.on_write()

    def sync(self) -> None:
        # The file is missing, or is being deleted with its segment.
        with contextlib.suppress(FileNotFoundError):
            self.handle.sync()

    def read_entry(self, slot: int, *, cached: bool = False) -> bytes:
        return self._read(slot * self.entry_size, self.entry_size, cached)

    def _read(self, position: int, size: int, cached: bool) -> bytes:
        if not cached:
            return self.file().read(position, size)
        if not self.handle.is_open:
            raise WouldWait
        data = self.file().read_cached(position, size)
        if data is None:
            raise WouldWait
        return data

    def floor_slot(self, target: int, key_at: int, key: Struct, *, cached: bool = False) -> int:
        """The last slot whose key is at most `target`, or -1. Keys, at position `key_at` of an entry, never
        decrease."""
        low, high = 0, self.entries
        entry_size = self.entry_size
        block_entries = _BLOCK_BYTES // entry_size
        # Invariant: keys before `low` are at most the target, keys from `high` on are greater.
        while high - low > block_entries:
            middle = (low + high) // 2
            (found,) = key.unpack_from(self._read(middle * entry_size, entry_size, cached), key_at)
            if found <= target:
                low = middle + 1
            else:
                high = middle
        if low < high:
            block = self._read(low * entry_size, (high - low) * entry_size, cached)
            first = low
            while low < high:
                middle = (low + high) // 2
                if key.unpack_from(block, (middle - first) * entry_size + key_at)[0] <= target:
                    low = middle + 1
                else:
                    high = middle
        return low - 1
