"""A disk that reports a failed write-back as Linux does: only to the descriptors that were open at that time."""

import errno
from typing import Any
from weakref import WeakSet

from typing_extensions import Buffer

from odradek.host.disk import HostDisk, HostFile


class WriteBackFile:
    def __init__(self, disk: "WriteBackDisk", file: HostFile) -> None:
        self._disk = disk
        self._file = file
        self.has_failed = False

    @property
    def path(self) -> str:
        return self._file.path

    def write_at(self, position: int, data: Buffer) -> None:
        self._file.write_at(position, data)
        self._disk.dirty.add(self.path)

    def sync(self) -> None:
        if self.has_failed:
            raise OSError(errno.EIO, "write-back failed", self.path)
        self._file.sync()
        self._disk.dirty.discard(self.path)

    def close(self) -> None:
        self._file.close()
        self._disk.open_files.discard(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class WriteBackDisk(HostDisk):
    def __init__(self) -> None:
        super().__init__()
        # Without references: a file closes with its last one.
        self.open_files: WeakSet[WriteBackFile] = WeakSet()
        # The paths of files with unsynced data.
        self.dirty: set[str] = set()

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> WriteBackFile:  # type: ignore[override]
        file = WriteBackFile(self, super().open(path, create=create, read_only=read_only))
        self.open_files.add(file)
        return file

    def fail_write_back(self, suffix: str) -> None:
        """The kernel fails to write the dirty pages of these files, and forgets them."""
        for path in [path for path in self.dirty if path.endswith(suffix)]:
            self.dirty.discard(path)
            for file in self.open_files:
                if file.path == path:
                    file.has_failed = True
