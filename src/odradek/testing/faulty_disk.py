"""The disk of a node under test: the real disk, with faults.

A full disk behaves like a full filesystem: writes that need more space fail with ENOSPC, but reading, overwriting and
deleting work. A detached disk is that of a killed process: no operation has an effect any more.
"""

import errno
import os
import threading
from collections.abc import Sequence
from typing import Final
from weakref import WeakSet

from typing_extensions import Buffer

from odradek.base.ports import Disk, DiskFile, DiskLock, DiskUsage
from odradek.testing.faults import Faults


class FaultyDisk:
    """The Disk port for one run of a node."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self.is_full = False
        self.delay_ms = 0.0
        """The delay of every write and of every read that waits for the device."""
        self._is_detached: Final = threading.Event()
        self._files: Final[WeakSet[FaultyFile]] = WeakSet()
        self._locks: Final[list[DiskLock]] = []

    def apply_faults(self, faults: Faults) -> None:
        """May be called from any thread."""
        self.is_full = faults.disk_is_full
        self.delay_ms = faults.disk_delay_ms

    def detach(self) -> None:
        """Make all further operations fail, close open files and release locks."""
        self._is_detached.set()
        for file in list(self._files):
            file.close()
        for lock in self._locks:
            lock.release()

    def thread_waits(self) -> int:
        return self._disk.thread_waits()

    def check(self) -> None:
        if self._is_detached.is_set():
            raise OSError(errno.EIO, "the node was killed")

    def check_room(self) -> None:
        self.wait_for_device()
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def wait_for_device(self) -> None:
        if self.delay_ms:
            self._is_detached.wait(self.delay_ms / 1000)
        self.check()

    # The Disk port

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> "FaultyFile":
        self.check()
        if create and self.is_full and not self._disk.exists(path):
            self.check_room()
        file = FaultyFile(self, self._disk.open(path, create=create, read_only=read_only))
        self._files.add(file)
        return file

    def read_bytes(self, path: str) -> bytes:
        self.check()
        return self._disk.read_bytes(path)

    def write_atomically(self, path: str, data: bytes) -> None:
        self.check_room()
        self._disk.write_atomically(path, data)

    def list_dir(self, path: str) -> list[str]:
        self.check()
        return self._disk.list_dir(path)

    def exists(self, path: str) -> bool:
        self.check()
        return self._disk.exists(path)

    def is_dir(self, path: str) -> bool:
        self.check()
        return self._disk.is_dir(path)

    def size(self, path: str) -> int:
        self.check()
        return self._disk.size(path)

    def modified_ms(self, path: str) -> int:
        self.check()
        return self._disk.modified_ms(path)

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        if not self._disk.is_dir(path):
            self.check_room()
        self._disk.make_dirs(path, durable=durable)

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self.wait_for_device()
        self._disk.rename(source, target, durable=durable)

    def link(self, source: str, target: str) -> None:
        self.check_room()
        self._disk.link(source, target)

    def remove(self, path: str) -> None:
        self.check()
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.check()
        self._disk.remove_tree(path)

    def sync_dir(self, path: str) -> None:
        self.wait_for_device()
        self._disk.sync_dir(path)

    def usage(self, path: str) -> DiskUsage:
        self.check()
        usage = self._disk.usage(path)
        return usage._replace(usable_bytes=0) if self.is_full else usage

    def lock(self, path: str) -> DiskLock:
        self.check()
        lock = self._disk.lock(path)
        self._locks.append(lock)
        return lock


class FaultyFile:
    __slots__ = ("__weakref__", "_disk", "_file")

    def __init__(self, disk: FaultyDisk, file: DiskFile) -> None:
        self._disk: Final = disk
        self._file: Final = file

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.check_room()
        return self._file.append(buffers)

    def write_at(self, position: int, data: Buffer) -> None:
        if self._disk.is_full and position + memoryview(data).nbytes > self._file.size():
            self._disk.check_room()
        self._disk.wait_for_device()
        self._file.write_at(position, data)

    def read(self, position: int, size: int) -> bytes:
        self._disk.wait_for_device()
        return self._file.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        self._disk.check()
        return self._file.read_cached(position, size)

    def read_into(self, position: int, buffer: memoryview) -> int:
        self._disk.wait_for_device()
        return self._file.read_into(position, buffer)

    def read_cached_into(self, position: int, buffer: memoryview) -> int:
        self._disk.check()
        return self._file.read_cached_into(position, buffer)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._disk.wait_for_device()
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.wait_for_device()
        self._file.sync()

    def close(self) -> None:
        self._file.close()
