"""A file that is opened when it is first needed, and can be given back at any time."""

from odradek.base.ports import Disk, DiskFile


class LazyFile:
    __slots__ = ("_disk", "_slot", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        # A dictionary for one file, because its `setdefault` lets exactly one of several threads win.
        self._slot: dict[int, DiskFile] = {}

    def get(self) -> DiskFile:
        """The same object for everybody: an open file remembers its size, and two of them would disagree."""
        file = self._slot.get(0)
        if file is None:
            opened = self._disk.open(self.path, create=True)
            file = self._slot.setdefault(0, opened)
            if file is not opened:
                opened.close()
        return file

    @property
    def is_open(self) -> bool:
        return 0 in self._slot

    def close(self) -> None:
        file = self._slot.pop(0, None)
        if file is not None:
            file.close()
