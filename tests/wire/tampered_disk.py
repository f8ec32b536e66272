"""The host's disk with fault injection: operations can be counted, delayed, or made to fail.

`interfere(operation, path)` runs before each operation, in the same thread; the node gets any error that it raises.
A `read_cached` or `read_cached_into` for which it raises BlockingIOError finds nothing in the page cache.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from typing_extensions import Buffer

from odradek.base.ports import DiskFile, DiskLock, DiskUsage
from odradek.host.disk import HostDisk

Interference = Callable[[str, str], None]


def leave_alone(_operation: str, _path: str) -> None:
    pass


class TamperedDisk:
    def __init__(self) -> None:
        self._disk = HostDisk()
        self.interfere: Interference = leave_alone
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, operation: str, path_part: str = "") -> int:
        """The number of these operations so far on files whose path contains `path_part`."""
        return sum(
            count for (one, path), count in self._counts.copy().items() if one == operation and path_part in path
        )

    def touch(self, operation: str, path: str) -> None:
        self._counts[operation, path] += 1
        self.interfere(operation, path)

    def thread_waits(self) -> int:
        return self._disk.thread_waits()

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        self.touch("open", path)
        return TamperedFile(self, path, self._disk.open(path, create=create, read_only=read_only))

    def read_bytes(self, path: str) -> bytes:
        self.touch("read_bytes", path)
        return self._disk.read_bytes(path)

    def write_atomically(self, path: str, data: bytes) -> None:
        self.touch("write_atomically", path)
        self._disk.write_atomically(path, data)

    def list_dir(self, path: str) -> list[str]:
        self.touch("list_dir", path)
        return self._disk.list_dir(path)

    def exists(self, path: str) -> bool:
        self.touch("exists", path)
        return self._disk.exists(path)

    def is_dir(self, path: str) -> bool:
        self.touch("is_dir", path)
        return self._disk.is_dir(path)

    def size(self, path: str) -> int:
        self.touch("size", path)
        return self._disk.size(path)

    def modified_ms(self, path: str) -> int:
        self.touch("modified_ms", path)
        return self._disk.modified_ms(path)

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        self.touch("make_dirs", path)
        self._disk.make_dirs(path, durable=durable)

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self.touch("rename", source)
        self._disk.rename(source, target, durable=durable)

    def remove(self, path: str) -> None:
        self.touch("remove", path)
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.touch("remove_tree", path)
        self._disk.remove_tree(path)

    def sync_dir(self, path: str) -> None:
        self.touch("sync_dir", path)
        self._disk.sync_dir(path)

    def link(self, source: str, target: str) -> None:
        self.touch("link", source)
        self._disk.link(source, target)

    def usage(self, path: str) -> DiskUsage:
        self.touch("usage", path)
        return self._disk.usage(path)

    def lock(self, path: str) -> DiskLock:
        self.touch("lock", path)
        return self._disk.lock(path)


class TamperedFile:
    def __init__(self, disk: TamperedDisk, path: str, file: DiskFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.touch("write", self._path)
        return self._file.append(buffers)

    def write_at(self, position: int, data: Buffer) -> None:
        self._disk.touch("write", self._path)
        self._file.write_at(position, data)

    def read(self, position: int, size: int) -> bytes:
        self._disk.touch("read", self._path)
        return self._file.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        try:
            self._disk.touch("read_cached", self._path)
        except BlockingIOError:
            return None
        return self._file.read_cached(position, size)

    def read_into(self, position: int, buffer: memoryview) -> int:
        self._disk.touch("read_into", self._path)
        return self._file.read_into(position, buffer)

    def read_cached_into(self, position: int, buffer: memoryview) -> int:
        try:
            self._disk.touch("read_cached_into", self._path)
        except BlockingIOError:
            return 0
        return self._file.read_cached_into(position, buffer)

    def size(self) -> int:
        self._disk.touch("size", self._path)
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._disk.touch("truncate", self._path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.touch("sync", self._path)
        self._file.sync()

    def close(self) -> None:
        self._file.close()
