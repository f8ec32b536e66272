"""What the offset and the time index share: fixed-size sorted entries in a file, searched without a memory map.

A mapped file would turn a disk error into a signal that ends the process, so entries are read and written by position.
The file of the active segment is as long as it may grow, as Kafka keeps it; `entries` says how much of it counts. It is
cut to that when the segment rolls or closes. Bytes behind `entries` are never read, which makes a failed append
harmless: the next one writes over it.
"""

from struct import Struct

from odradek.base.ports import Disk, DiskFile
from odradek.storage.log.lazy_file import LazyFile

# What one read brings when the search has come this close.
_BLOCK_BYTES = 4096


class WouldWait(Exception):
    """The page is not in memory, and the caller asked not to wait for the disk."""


class CorruptIndex(Exception):
    """The index cannot belong to its segment; it is rebuilt from the log."""


class IndexFile:
    """A sorted index; `entries` is known once `load` has run, which happens on first use."""

    __slots__ = ("_disk", "_file", "base_offset", "entries", "entry_size", "max_bytes", "max_entries")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int, entry_size: int) -> None:
        self._disk = disk
        self._file = LazyFile(disk, path)
        self.base_offset = base_offset
        self.max_bytes = max_bytes - max_bytes % entry_size
        self.max_entries = max_bytes // entry_size
        self.entry_size = entry_size
        self.entries = -1

    def load(self) -> None:
        """Takes the file's whole length for entries: true of every index but that of an unclosed active segment.

        Several threads may come to it at once, one of them to write: the first that is done decides.
        """
        raise NotImplementedError

    def count_stored(self) -> int:
        return self.file().size() // self.entry_size

    def create(self) -> None:
        """An empty index of a new active segment; an old file of that name is overwritten."""
        self.reset()
        self.file().truncate(self.max_bytes)

    def reset(self) -> None:
        """An empty index in an empty file, which may be new."""
        self._file.create().truncate(0)
        self.entries = 0

    def file(self) -> DiskFile:
        return self._file.get()

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    def reserve(self) -> None:
        """Lengthens the file to what it may grow to, for a segment that is active again."""
        self.load()
        if self.file().size() != self.max_bytes and self.entries * self.entry_size <= self.max_bytes:
            self.file().truncate(self.max_bytes)

    def trim(self) -> None:
        self.load()
        size = self.entries * self.entry_size
        if self.file().size() != size:
            self.file().truncate(size)

    def sync(self) -> None:
        try:
            file = self.file()
        except FileNotFoundError:
            # There is none, or it is just going with its segment.
            return
        file.sync()

    def release(self) -> None:
        self._file.release()

    def read_entry(self, slot: int, *, cached: bool = False) -> bytes:
        return self._read(slot * self.entry_size, self.entry_size, cached)

    def _read(self, position: int, size: int, cached: bool) -> bytes:
        file = self.file()
        if not cached:
            return file.read(position, size)
        data = file.read_cached(position, size)
        if data is None:
            raise WouldWait
        return data

    def floor_slot(self, target: int, key_at: int, key: Struct, *, cached: bool = False) -> int:
        """The last slot whose key is not above `target`, or -1. Keys, read at `key_at` of an entry, never fall."""
        low, high = 0, self.entries
        entry_size = self.entry_size
        block_entries = _BLOCK_BYTES // entry_size
        # Invariant: keys before `low` are not above the target, keys from `high` on are.
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
