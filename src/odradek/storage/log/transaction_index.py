"""The aborted transactions of one segment (`.txnindex`), ordered by their abort markers.

Most segments have no aborted transaction and no file. The entries of an open index are kept in memory.
"""

import contextlib
from struct import Struct
from typing import NamedTuple

from odradek.base.ports import Disk
from odradek.storage.log.index_file import CorruptIndex
from odradek.storage.log.lazy_file import LazyFile

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    # The last stable offset after the abort marker was written: later transactions start at or after it.
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_disk", "_entries", "base_offset", "handle")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        # Open only while it has unsynced data: readers use the entries in memory.
        self.handle = LazyFile(disk, path)
        self.base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = None

    @property
    def path(self) -> str:
        return self.handle.path

    @path.setter
    def path(self, path: str) -> None:
        self.handle.path = path

    def has_no_file(self) -> None:
        """Avoids searching for the file, which most segments do not have."""
        self._entries = []

    @property
    def is_loaded(self) -> bool:
        return self._entries is not None

    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._read() if self._disk.exists(self.path) else []
        return self._entries

    def _read(self) -> list[AbortedTransaction]:
        data = self._disk.read_bytes(self.path)
        whole = len(data) - len(data) % _ENTRY.size
        entries = []
        for version, *fields in _ENTRY.iter_unpack(data[:whole]):
            if version > _VERSION:
                raise CorruptIndex(f"{self.path}: unknown version {version} of an aborted transaction")
            entries.append(AbortedTransaction(*fields))
        return entries

    def check(self) -> None:
        for entry in self.entries():
            if entry.last_offset < self.base_offset:
                raise CorruptIndex(f"{self.path}: {entry} is before the segment's base offset {self.base_offset}")

    def append(self, aborted: AbortedTransaction) -> None:
        self.write_ahead(0, aborted)
        self.commit([aborted])

    def write_ahead(self, ahead: int, aborted: AbortedTransaction) -> None:
        """Writes an entry `ahead` slots after the last one; `commit` counts it once the log has the marker."""
        position = (len(self.entries()) + ahead) * _ENTRY.size
        self.handle.create().write_at(position, _ENTRY.pack(_VERSION, *aborted))
        self.handle.on_write()

    def commit(self, aborted: list[AbortedTransaction]) -> None:
        entries = self.entries()
        assert not entries or entries[-1].last_offset < aborted[0].last_offset, (
            f"{self.path}: abort marker {aborted[0].last_offset} after {entries[-1].last_offset}"
        )
        entries.extend(aborted)

    def collect(self, from_offset: int, to_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap [from, to), and whether later segments cannot contain more of them."""
        found = []
        for entry in self.entries():
            if entry.last_offset >= from_offset and entry.first_offset < to_offset:
                found.append(entry)
            if entry.last_stable_offset >= to_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Removes the transactions whose marker is at or after this offset."""
        kept = [entry for entry in self.entries() if entry.last_offset < offset]
        if len(kept) < len(self.entries()):
            self._truncate(kept)

    def reset(self) -> None:
        self._truncate([])

    def trim(self) -> None:
        """Removes bytes that a failed append may have left after the last entry."""
        size = len(self.entries()) * _ENTRY.size
        if self._disk.exists(self.path) and self._disk.size(self.path) != size:
            self._truncate(self.entries())

    def _truncate(self, kept: list[AbortedTransaction]) -> None:
        if self._disk.exists(self.path):
            self.handle.get().truncate(len(kept) * _ENTRY.size)
            self.handle.on_write()
        self._entries = list(kept)

    def sync(self) -> None:
        if self._entries != [] or self.handle.is_unsynced:
            # The file is missing, or is being deleted with its segment.
            with contextlib.suppress(FileNotFoundError):
                self.handle.sync()
            self.handle.release()
