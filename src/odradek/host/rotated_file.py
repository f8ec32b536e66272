"""A log file that is renamed when it is full: FILE.1 is the newest of the former ones.

It is written in one thread, and every operation may block. Only the owner can read the files.
"""

import os
from contextlib import suppress
from typing import Final

_MODE: Final = 0o600


class RotatedFile:
    def __init__(self, path: str, *, bytes_max: int, files_max: int) -> None:
        """`files_max` includes the file that is being written."""
        self._path: Final = path
        self._bytes_max: Final = bytes_max
        self._files_max: Final = files_max
        self._descriptor: int | None = None
        self._size = 0
        self._has_part_of_line = False
        """Whether the last write has failed in the middle of a line."""

    def open(self) -> None:
        """Continues a file of an earlier process. Raises OSError."""
        if self._descriptor is not None:
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            os.fchmod(descriptor, _MODE)
            self._size = os.fstat(descriptor).st_size
            self._has_part_of_line = self._size > 0 and os.pread(descriptor, 1, self._size - 1) != b"\n"
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def append(self, line: bytes) -> None:
        """Raises OSError: the line is not, or not completely, in the file."""
        self._reopen_if_moved()
        self.open()
        if self._size and self._size + len(line) > self._bytes_max:
            self._rotate()
        self._write(b"\n" + line if self._has_part_of_line else line)

    def _write(self, data: bytes) -> None:
        assert self._descriptor is not None
        left = memoryview(data)
        while left:
            written = os.write(self._descriptor, left)
            self._size += written
            left = left[written:]
            # If the next write fails, the next line must not continue this one.
            self._has_part_of_line = bool(left)

    def _reopen_if_moved(self) -> None:
        """Another program may have renamed or deleted the file."""
        if self._descriptor is None:
            return
        own = os.fstat(self._descriptor)
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            self.close()
            return
        if (own.st_dev, own.st_ino) != (named.st_dev, named.st_ino):
            self.close()

    def _rotate(self) -> None:
        self.close()
        if self._files_max == 1:
            os.remove(self._path)
        for number in range(self._files_max - 1, 0, -1):
            source = self._path if number == 1 else f"{self._path}.{number - 1}"
            with suppress(FileNotFoundError):
                os.replace(source, f"{self._path}.{number}")
        self.open()
