"""A file that is opened when it is first needed, and can be given back at any time, whoever is just reading it."""

from odradek.base.ports import Disk, DiskFile


class LazyFile:
    __slots__ = ("_disk", "_slot", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        # A dictionary for one file, because its `setdefault` lets exactly one of several threads win.
        self._slot: dict[int, DiskFile] = {}

    def get(self) -> DiskFile:
        """The same object for everybody: an open file remembers that a sync of it failed."""
        file = self._slot.get(0)
        return self._open(create=False) if file is None else file

    def create(self) -> DiskFile:
        """As `get`, for a file that need not exist. Readers never make one: a segment may be renamed under them."""
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
        """Closes the file once nobody uses it: a read that has just taken it may still be about to begin."""
        self._slot.pop(0, None)
