"""A file that is opened on first use and can be released at any time, even while it is read.

A failed write-back is reported only to descriptors that were open at that time. So a file with unsynced data stays open
until the sync, which runs on the descriptor that was written.
"""

from odradek.base.ports import Disk, DiskFile


class LazyFile:
    __slots__ = ("_disk", "_slot", "_synced_writes", "_writes", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        # A dictionary with one entry, because `setdefault` lets exactly one of several threads win.
        self._slot: dict[int, DiskFile] = {}
        self._writes = 0
        self._synced_writes = 0

    def get(self) -> DiskFile:
        """Returns the same object to all callers: an open file keeps the error of a failed sync."""
        file = self._slot.get(0)
        return self._open(create=False) if file is None else file

    def create(self) -> DiskFile:
        """Like `get`, but creates a missing file. Readers never create one: the segment may be renamed meanwhile."""
        file = self._slot.get(0)
        return self._open(create=True) if file is None else file

    def _open(self, *, create: bool) -> DiskFile:
        assert not self.is_unsynced, f"{self.path} was closed with unsynced data"
        opened = self._disk.open(self.path, create=create)
        file = self._slot.setdefault(0, opened)
        if file is not opened:
            opened.close()
        return file

    @property
    def is_open(self) -> bool:
        return 0 in self._slot

    @property
    def is_unsynced(self) -> bool:
        return self._writes != self._synced_writes

    def on_write(self) -> None:
        """Call it after every change of the contents. One writer at a time, and never during `release`."""
        self._writes += 1

    def sync(self) -> None:
        """May run in another thread than the writer."""
        writes = self._writes
        self.get().sync()
        # Not what was written meanwhile.
        self._synced_writes = max(self._synced_writes, writes)

    def release(self) -> None:
        """Drops the reference, unless there is unsynced data: the file closes when the last reader is done with it."""
        if not self.is_unsynced:
            self._slot.pop(0, None)

    def abandon(self) -> None:
        """Like `release`, for a file that is deleted or whose disk failed: its data is never synced."""
        self._synced_writes = self._writes
        self._slot.pop(0, None)
