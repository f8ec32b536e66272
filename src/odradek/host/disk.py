"""The Disk port on a real filesystem: positional reads and writes, durable renames, locks that end with the process.

It knows nothing of logs or segments, and passes every OSError to the caller.
"""

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import struct
from collections.abc import Sequence

from typing_extensions import Buffer

from odradek.base.ports import DiskUsage

# The maximum number of buffers per system call on Linux.
_BUFFERS_PER_CALL = 1024
# Larger cached reads allocate a buffer instead of using a pooled one.
_SCRATCH_BYTES = 1 << 20
_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)
# Reads from these filesystems never block on a device, and some do not support RWF_NOWAIT.
_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})
# Errors of filesystems that do not support RWF_NOWAIT.
_NO_WAIT_UNKNOWN = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})

# Elsewhere than on Linux, the waits of all threads count.
_WAITING = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

# Syncs data and size, but not the modification time.
_sync_descriptor = getattr(os, "fdatasync", os.fsync)


class _Descriptor:
    """A file descriptor that is closed with its last reference, so that `close` never interrupts a read."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class _NoWaitReads:
    """The devices that support non-blocking reads, and a pool of buffers for them."""

    __slots__ = ("_memory_devices", "pool", "unsupported_devices")

    def __init__(self) -> None:
        self.pool: list[bytearray] = []
        self.unsupported_devices: set[int] = set()
        self._memory_devices: set[int] | None = None

    def device_is_memory(self, device: int) -> bool:
        if self._memory_devices is None:
            self._memory_devices = _find_memory_devices()
        return device in self._memory_devices


def _find_memory_devices() -> set[int]:
    devices: set[int] = set()
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                mount, _, filesystem = line.partition(" - ")
                if filesystem.split(" ", 1)[0] in _MEMORY_FILESYSTEMS:
                    major, _, minor = mount.split(" ")[2].partition(":")
                    devices.add(os.makedev(int(major), int(minor)))
    except OSError:
        return set()
    return devices


class HostFile:
    """An open file. It caches no contents, so that several objects for one file are consistent."""

    __slots__ = ("_descriptor", "_device", "_no_wait", "_sync_failure", "path")

    def __init__(self, path: str, number: int, no_wait: _NoWaitReads) -> None:
        self.path = path
        self._descriptor: _Descriptor | None = _Descriptor(number)
        self._no_wait = no_wait
        self._device = os.fstat(number).st_dev
        self._sync_failure: OSError | None = None

    def _open_descriptor(self) -> _Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            raise OSError(errno.EBADF, "file is closed", self.path)
        return descriptor

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Returns the number of bytes written, or raises OSError with the file at its old size."""
        descriptor = self._open_descriptor()
        start = os.fstat(descriptor.number).st_size
        try:
            if len(buffers) == 1:
                written = _write_all(descriptor.number, buffers[0], start)
            else:
                written = 0
                for first in range(0, len(buffers), _BUFFERS_PER_CALL):
                    chunk = buffers[first : first + _BUFFERS_PER_CALL]
                    written += _write_all_vectored(descriptor.number, chunk, start + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor.number, start)
            raise
        return written

    def write_at(self, position: int, data: Buffer) -> None:
        descriptor = self._descriptor or self._open_descriptor()
        # Short writes are rare, and this is the path of every produced record.
        count = os.pwrite(descriptor.number, data, position)
        if count != (data.nbytes if data.__class__ is memoryview else len(data)):  # type: ignore[arg-type]
            rest = memoryview(data).cast("B")[count:]
            _write_all(descriptor.number, rest, position + count)

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._open_descriptor()
        data = os.pread(descriptor.number, size, position)
        while len(data) < size:
            part = os.pread(descriptor.number, size - len(data), position + len(data))
            if not part:
                break
            data += part
        return data

    def read_cached(self, position: int, size: int) -> bytes | None:
        no_wait = self._no_wait
        if self._device in no_wait.unsupported_devices:
            return self._read_memory_only(position, size)
        descriptor = self._open_descriptor()
        pool = no_wait.pool
        pooled = size <= _SCRATCH_BYTES
        try:
            scratch = pool.pop() if pooled else bytearray(size)
        except IndexError:
            scratch = bytearray(_SCRATCH_BYTES)
        try:
            with memoryview(scratch) as whole, whole[:size] as view:
                count = os.preadv(descriptor.number, (view,), position, _NO_WAIT)
                if count == size:
                    return bytes(view)
                # The file ends here, or the rest is not in the page cache.
                at_end = position + count >= os.fstat(descriptor.number).st_size
                return bytes(view[:count]) if at_end else None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NO_WAIT_UNKNOWN:
                raise
            no_wait.unsupported_devices.add(self._device)
            return self._read_memory_only(position, size)
        finally:
            if pooled:
                pool.append(scratch)

    def read_into(self, position: int, buffer: memoryview) -> int:
        descriptor = self._open_descriptor()
        filled = os.preadv(descriptor.number, (buffer,), position)
        while 0 < filled < len(buffer):
            count = os.preadv(descriptor.number, (buffer[filled:],), position + filled)
            if not count:
                break
            filled += count
        return filled

    def read_cached_into(self, position: int, buffer: memoryview) -> int:
        no_wait = self._no_wait
        if self._device not in no_wait.unsupported_devices:
            try:
                return os.preadv(self._open_descriptor().number, (buffer,), position, _NO_WAIT)
            except BlockingIOError:
                return 0
            except OSError as error:
                if error.errno not in _NO_WAIT_UNKNOWN:
                    raise
                no_wait.unsupported_devices.add(self._device)
        return self.read_into(position, buffer) if no_wait.device_is_memory(self._device) else 0

    def _read_memory_only(self, position: int, size: int) -> bytes | None:
        return self.read(position, size) if self._no_wait.device_is_memory(self._device) else None

    def size(self) -> int:
        return os.fstat(self._open_descriptor().number).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._open_descriptor().number, size)

    def sync(self) -> None:
        """Never retries a failed sync: the kernel drops the dirty pages, and a second sync would report success."""
        if self._sync_failure is not None:
            raise self._sync_failure
        try:
            _sync_descriptor(self._open_descriptor().number)
        except OSError as error:
            self._sync_failure = error
            raise

    def close(self) -> None:
        self._descriptor = None


def _write_all(number: int, data: Buffer, position: int) -> int:
    count = os.pwrite(number, data, position)
    size = len(data) if isinstance(data, (bytes, bytearray)) else memoryview(data).nbytes
    if count < size:
        with memoryview(data).cast("B") as rest:
            while count < size:
                with rest[count:] as part:
                    count += os.pwrite(number, part, position + count)
    return count


def _write_all_vectored(number: int, buffers: Sequence[Buffer], position: int) -> int:
    count = os.pwritev(number, buffers, position)
    size = sum(memoryview(buffer).nbytes for buffer in buffers)
    if count < size:
        # Short writes are rare enough for a copy.
        count += _write_all(number, b"".join(map(bytes, buffers))[count:], position + count)
    return count


class _HostLock:
    __slots__ = ("_descriptor",)

    def __init__(self, number: int) -> None:
        self._descriptor: _Descriptor | None = _Descriptor(number)

    def release(self) -> None:
        self._descriptor = None


class HostDisk:
    """The filesystem of this machine."""

    __slots__ = ("_being_written", "_no_wait")

    def __init__(self) -> None:
        self._no_wait = _NoWaitReads()
        # Temporary files in use, by writer: several threads may replace the same file at the same time.
        self._being_written: dict[str, object] = {}

    def thread_waits(self) -> int:
        return resource.getrusage(_WAITING).ru_nvcsw

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> HostFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT
        return HostFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644), self._no_wait)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes) -> None:
        mine = object()
        temporary = path + ".tmp"
        beside = 0
        while self._being_written.setdefault(temporary, mine) is not mine:
            beside += 1
            temporary = f"{path}.{beside}.tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            del self._being_written[temporary]
        self.sync_dir(os.path.dirname(path))

    def list_dir(self, path: str) -> list[str]:
        return os.listdir(path)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path) or "."
        for directory in reversed(missing):
            # Another thread may have created it.
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
            if durable:
                self.sync_dir(os.path.dirname(directory))

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        os.replace(source, target)
        if not durable:
            return
        target_parent = os.path.dirname(target)
        self.sync_dir(target_parent)
        source_parent = os.path.dirname(source)
        if source_parent != target_parent:
            self.sync_dir(source_parent)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        number = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def usage(self, path: str) -> DiskUsage:
        status = os.statvfs(path)
        return DiskUsage(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def lock(self, path: str) -> _HostLock:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock_whole_file(number)
        except OSError as error:
            os.close(number)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(errno.EAGAIN, "locked by another process", path) from None
            raise
        return _HostLock(number)


def _lock_whole_file(number: int) -> None:
    """A record lock, as Java's FileChannel uses: it excludes Apache Kafka too."""
    if hasattr(fcntl, "F_OFD_SETLK"):
        # Owned by the open file, not by the process: closing another descriptor of the file does not release it.
        everything = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(number, fcntl.F_OFD_SETLK, everything)
    else:
        fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
