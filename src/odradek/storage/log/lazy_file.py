"""A file that is opened on first use and can be released at any time, even while it is read."""

from odradek.base.ports import Disk, DiskFile


class LazyFile:
    __slots__ = ("_disk", "_slot", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        # A dictionary with one entry, because `setdefault` lets exactly one of several threads win.
        self._slot: dict[int, DiskFile] = {}

    def get(self) -> DiskFile:
        """Returns the same object to all callers: an open file keeps the error of a failed sync."""
        file = self._slot.get(0)
        return self._open(create=False) if file is None else file

    def create(self) -> DiskFile:
        """Like `get`, but creates a missing file. Readers never create one: the segment may be renamed meanwhile."""
        file = self._slot.get(0)
        return self._open(create=True) if file is None else file

    def _open(self, *, create: bool) -> DiskFile:
        opened = self._disk.open(self.path, create=create)
        file = self._slot.setdefault(0, opened)
        if file is not opened:
            opened.close()
        return file

    @property
    def is_open(self) -> bool:
        return 0 in self._slot

    def release(self) -> None:
        """Drops the reference: the file closes when the last reader is done with it."""
        self._slot.pop(0, None)
