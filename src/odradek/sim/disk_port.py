"""The Disk port of one process on a simulated disk, with its faults.

Before every operation the process may die, at whatever place of its code that is. Operations take time: in a thread
they make the job longer, on the event loop they block everything else, as on a real computer.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from typing_extensions import Buffer

from odradek.base.ports import DiskUsage
from odradek.sim.disk import DirectoryNode, FileNode, VirtualDisk
from odradek.sim.process import Process, ProcessDied

_CAPACITY_BYTES: Final = 1 << 40
_SYNC_SECONDS: Final = 0.001
# Some syncs take much longer than others.
_LONG_SYNC_PROBABILITY: Final = 0.15
_LONG_SYNC_SECONDS: Final = 0.02
_COLD_PROBABILITY: Final = 0.02


@dataclass(slots=True)
class DiskCondition:
    """The current condition of a computer's disk."""

    room_bytes: int | None = None
    """How many bytes can still be written; None: unlimited."""
    failing: dict[str, str] = field(default_factory=dict)
    """Paths below which `read`, `write` or `sync` fails with EIO, by kind."""
    slow_seconds: float = 0.0
    """The maximum delay of every operation."""
    has_failed: bool = False
    """Whether any operation has failed since the last recovery."""

    def reset(self) -> None:
        self.room_bytes = None
        self.failing.clear()
        self.slow_seconds = 0.0
        self.has_failed = False


class VirtualDiskPort:
    def __init__(self, disk: VirtualDisk, condition: DiskCondition, process: Process, random: Random) -> None:
        self.disk: Final = disk
        self.process: Final = process
        self._condition: Final = condition
        self._random: Final = random
        # While a job of the executor runs: the duration of its operations so far.
        self.job_seconds: float | None = None
        self._waits = 0
        process.add_end_listener(self._release_locks)

    # ---- before every operation

    def enter(self, what: str, path: str, kind: str | None = None) -> None:
        process = self.process
        if process.disk_countdown.is_counting:
            process.disk_countdown.tick()
        if kind == "sync" and process.sync_countdown.is_counting:
            process.sync_countdown.tick()
        if not process.is_alive:
            raise ProcessDied
        process.trace.minor(process.name, f"disk: {what} {path}")
        condition = self._condition
        if condition.slow_seconds:
            self.charge(self._random.uniform(0, condition.slow_seconds))
        if condition.failing and kind is not None and path.startswith(condition.failing.get(kind, "\0")):
            condition.has_failed = True
            process.trace.major(process.name, f"disk: {kind} of {path} fails")
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def thread_waits(self) -> int:
        return self._waits

    def charge(self, seconds: float) -> None:
        self._waits += 1
        if self.job_seconds is None:
            self.process.add_delay(seconds)
        else:
            self.job_seconds += seconds

    def charge_sync(self) -> None:
        is_long = self._random.random() < _LONG_SYNC_PROBABILITY
        self.charge(self._random.expovariate(1 / (_LONG_SYNC_SECONDS if is_long else _SYNC_SECONDS)))

    def on_write(self, path: str, data: bytes) -> None:
        """Calls the watcher, which may end the process."""
        if self.disk.write_watcher is not None:
            self.disk.write_watcher(path, data)
            if not self.process.is_alive:
                raise ProcessDied

    def take_room(self, wanted: int) -> int:
        """How many of the bytes fit on the disk."""
        condition = self._condition
        if condition.room_bytes is None or wanted <= 0:
            return wanted
        granted = min(wanted, condition.room_bytes)
        condition.room_bytes -= granted
        return granted

    def is_cold(self) -> bool:
        return self._random.random() < _COLD_PROBABILITY

    def out_of_room(self, path: str) -> OSError:
        self._condition.has_failed = True
        self.process.trace.major(self.process.name, f"disk: no room for {path}")
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    # ---- the Disk port

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> "VirtualFile":
        self.enter("open", path, "read")
        node = self.disk.find(path)
        if node is None and create:
            if self.take_room(1) < 1:
                raise self.out_of_room(path)
            node = self.disk.create(path)
        return VirtualFile(self, path, node if isinstance(node, FileNode) else self.disk.file(path))

    def read_bytes(self, path: str) -> bytes:
        self.enter("read", path, "read")
        content = self.disk.file(path).cached
        return content.read(0, content.size)

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write_at(0, data)
        file.sync()
        self.rename(temporary, path)

    def list_dir(self, path: str) -> list[str]:
        self.enter("list", path, "read")
        names = sorted(self.disk.directory(path).cached)
        # Real directories are not sorted.
        self._random.shuffle(names)
        return names

    def exists(self, path: str) -> bool:
        self.enter("look for", path)
        return self.disk.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.enter("look for", path)
        return isinstance(self.disk.find(path), DirectoryNode)

    def size(self, path: str) -> int:
        self.enter("size of", path, "read")
        return self.disk.file(path).cached.size

    def modified_ms(self, path: str) -> int:
        self.enter("age of", path, "read")
        return self.disk.file(path).modified_ms

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        missing = []
        while not self.is_dir(path):
            missing.append(path)
            path = path.rpartition("/")[0]
        for directory in reversed(missing):
            self.enter("make", directory, "write")
            self.disk.make_dir(directory)
            if durable:
                self.sync_dir(directory.rpartition("/")[0])

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self.enter("rename", f"{source} to {target}", "write")
        self.disk.rename(source, target)
        if durable:
            parents = dict.fromkeys(path.rpartition("/")[0] for path in (target, source))
            for parent in parents:
                self.sync_dir(parent)

    def link(self, source: str, target: str) -> None:
        self.enter("link", f"{source} as {target}", "write")
        self.disk.link(source, target)

    def remove(self, path: str) -> None:
        self.enter("remove", path, "write")
        self.disk.remove(path)

    def remove_tree(self, path: str) -> None:
        """Removes one name at a time: a crash leaves some of them."""
        for below, _ in list(self.disk.files(path)):
            self.remove(below)
        self.enter("remove", path, "write")
        self.disk.remove_tree(path)

    def sync_dir(self, path: str) -> None:
        self.enter("sync", path, "sync")
        self.disk.directory(path).sync()
        self.charge_sync()

    def usage(self, path: str) -> DiskUsage:
        self.enter("usage of", path)
        room_bytes = self._condition.room_bytes
        return DiskUsage(_CAPACITY_BYTES, _CAPACITY_BYTES // 2 if room_bytes is None else room_bytes)

    def lock(self, path: str) -> "VirtualLock":
        self.enter("lock", path, "write")
        if self.disk.find(path) is None:
            self.disk.create(path)
        if self.disk.locks.setdefault(path, self.process) is not self.process:
            raise BlockingIOError(errno.EAGAIN, "locked by another process", path)
        return VirtualLock(self, path)

    def unlock(self, path: str) -> None:
        if self.disk.locks.get(path) is self.process:
            del self.disk.locks[path]

    def _release_locks(self, power_lost: bool) -> None:
        for path, holder in list(self.disk.locks.items()):
            if holder is self.process:
                del self.disk.locks[path]


class VirtualLock:
    def __init__(self, port: VirtualDiskPort, path: str) -> None:
        self._port: Final = port
        self._path: Final = path

    def release(self) -> None:
        self._port.unlock(self._path)


class VirtualFile:
    def __init__(self, port: VirtualDiskPort, path: str, node: FileNode) -> None:
        self._port: Final = port
        self._path: Final = path
        self._node: FileNode | None = node
        self._sync_failure: OSError | None = None

    def _enter(self, what: str, kind: str | None = None) -> FileNode:
        self._port.enter(what, self._path, kind)
        if self._node is None:
            raise OSError(errno.EBADF, "file is closed", self._path)
        return self._node

    def append(self, buffers: Sequence[Buffer]) -> int:
        node = self._enter("append to", "write")
        data = b"".join(map(bytes, buffers))
        start = node.cached.size
        if self._port.take_room(len(data)) < len(data):
            raise self._port.out_of_room(self._path)
        node.write(start, data, self._port.disk.now_ms())
        self._port.on_write(self._path, data)
        return len(data)

    def write_at(self, position: int, data: Buffer) -> None:
        node = self._enter("write", "write")
        written = bytes(data)
        growth = position + len(written) - len(node.cached.data)
        granted = len(written) - growth + self._port.take_room(growth) if growth > 0 else len(written)
        if granted > 0:
            node.write(position, written[:granted], self._port.disk.now_ms())
            self._port.on_write(self._path, written[:granted])
        if granted < len(written):
            # A short write first, then the error: the written bytes stay.
            raise self._port.out_of_room(self._path)

    def read(self, position: int, size: int) -> bytes:
        return self._enter("read", "read").cached.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        node = self._enter("read", "read")
        return None if self._port.is_cold() else node.cached.read(position, size)

    def read_into(self, position: int, buffer: memoryview) -> int:
        data = self.read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_cached_into(self, position: int, buffer: memoryview) -> int:
        data = self.read_cached(position, len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)

    def size(self) -> int:
        return self._enter("size of", "read").cached.size

    def truncate(self, size: int) -> None:
        node = self._enter("resize", "write")
        if size != node.cached.size:
            node.resize(size, self._port.disk.now_ms())

    def sync(self) -> None:
        if self._sync_failure is not None:
            raise self._sync_failure
        try:
            node = self._enter("sync", "sync")
        except OSError as error:
            self._sync_failure = error
            if self._node is not None:
                self._node.fail_to_sync()
            raise
        node.sync()
        self._port.charge_sync()

    def close(self) -> None:
        self._node = None
