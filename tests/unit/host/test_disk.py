import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from odradek.host import disk as host_disk
from odradek.host.disk import HostDisk, HostFile


@pytest.fixture
def disk() -> HostDisk:
    return HostDisk()


def open_new(disk: HostDisk, path: Path) -> HostFile:
    return disk.open(str(path), create=True)


def test_thread_waits_counts_waiting_but_not_computing(disk: HostDisk) -> None:
    before = disk.thread_waits()
    sum(range(100_000))
    assert disk.thread_waits() == before
    time.sleep(0.001)
    assert disk.thread_waits() > before


def test_append_goes_to_the_end_and_counts(disk: HostDisk, tmp_path: Path) -> None:
    file = open_new(disk, tmp_path / "a")
    assert file.append([b"one"]) == 3
    assert file.append([b"two", bytearray(b"three"), memoryview(b"four")]) == 12
    assert file.size() == 15
    assert (tmp_path / "a").read_bytes() == b"onetwothreefour"
    assert disk.open(str(tmp_path / "a")).size() == 15


def test_append_takes_more_buffers_than_one_call(disk: HostDisk, tmp_path: Path) -> None:
    buffers = [str(n).encode() for n in range(3000)]
    assert open_new(disk, tmp_path / "a").append(buffers) == len(b"".join(buffers))
    assert (tmp_path / "a").read_bytes() == b"".join(buffers)


@pytest.mark.parametrize("call", ["pwrite", "pwritev"])
def test_short_writes_are_completed(disk: HostDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    real = os.pwrite

    def write_three_bytes(fd: int, data: Any, position: int) -> int:
        data = b"".join(map(bytes, data)) if isinstance(data, (list, tuple)) else bytes(data)
        return real(fd, data[:3], position)

    monkeypatch.setattr(os, call, write_three_bytes)
    file = open_new(disk, tmp_path / "a")
    file.append([b"0123456789"])
    file.append([b"abcd", b"efgh"])
    assert (tmp_path / "a").read_bytes() == b"0123456789abcdefgh"


def test_failed_append_leaves_the_old_size(disk: HostDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    file = open_new(disk, tmp_path / "a")
    file.append([b"kept"])
    calls = 0

    def full_after_two_bytes(fd: int, data: Any, position: int) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, bytes(data)[:2], position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_after_two_bytes)
        with pytest.raises(OSError) as caught:
            file.append([b"lost"])
    assert caught.value.errno == errno.ENOSPC
    assert (tmp_path / "a").read_bytes() == b"kept"
    file.append([b"again"])
    assert (tmp_path / "a").read_bytes() == b"keptagain"


def test_read_stops_at_the_end(disk: HostDisk, tmp_path: Path) -> None:
    file = open_new(disk, tmp_path / "a")
    file.append([b"0123456789"])
    for read in (file.read, file.read_cached):
        assert read(2, 3) == b"234"
        assert read(8, 100) == b"89"
        assert read(10, 5) == b""
        assert read(99, 5) == b""


def test_cached_read_larger_than_the_shared_buffer(disk: HostDisk, tmp_path: Path) -> None:
    file = open_new(disk, tmp_path / "a")
    data = os.urandom(3 << 20)
    file.append([data])
    assert file.read_cached(1, len(data)) == data[1:]


def test_cached_read_returns_none_when_it_would_block(
    disk: HostDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = open_new(disk, tmp_path / "a")
    file.append([b"0123456789"])

    def not_in_memory(*_: Any) -> int:
        raise BlockingIOError(errno.EAGAIN, "would wait")

    monkeypatch.setattr(os, "preadv", not_in_memory)
    assert file.read_cached(0, 10) is None
    monkeypatch.setattr(os, "preadv", lambda *_: 4)
    assert file.read_cached(0, 10) is None
    monkeypatch.undo()
    assert file.read_cached(0, 10) == b"0123456789"


def test_cached_read_without_rwf_nowait_needs_a_thread_unless_in_memory(
    disk: HostDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = open_new(disk, tmp_path / "a")
    file.append([b"0123456789"])

    def unknown_flag(*_: Any) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", unknown_flag)
    monkeypatch.setattr(host_disk, "_find_memory_devices", set)
    assert file.read_cached(0, 10) is None
    assert file.read_cached(0, 10) is None
    other = HostDisk()
    monkeypatch.setattr(host_disk, "_find_memory_devices", lambda: {os.stat(tmp_path).st_dev})
    assert other.open(str(tmp_path / "a")).read_cached(2, 4) == b"2345"


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no tmpfs at /dev/shm")
def test_cached_read_on_tmpfs(disk: HostDisk) -> None:
    path = f"/dev/shm/odradek-test-{os.getpid()}"
    try:
        file = disk.open(path, create=True)
        file.append([b"in memory"])
        assert file.read_cached(3, 100) == b"memory"
        assert file.read_cached(3, 100) == b"memory"
    finally:
        os.unlink(path)


def test_failed_sync_is_never_retried(disk: HostDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def fail_once(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(host_disk, "_sync_descriptor", fail_once)
    file = open_new(disk, tmp_path / "a")
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            file.sync()
        assert caught.value.errno == errno.EIO
    assert calls == 1


def test_close_waits_for_the_read_in_flight(disk: HostDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = open_new(disk, tmp_path / "a")
    file.append([b"0123456789"])
    reading, may_continue = threading.Event(), threading.Event()
    real = os.pread

    def slow_read(fd: int, size: int, position: int) -> bytes:
        reading.set()
        may_continue.wait(10)
        return real(fd, size, position)

    monkeypatch.setattr(os, "pread", slow_read)
    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(file.read(0, 10)))
    thread.start()
    reading.wait(10)
    file.close()
    # A file opened now must not get the number that the read still uses.
    disk.open(str(tmp_path / "b"), create=True).append([b"something else"])
    may_continue.set()
    thread.join()
    assert results == [b"0123456789"]
    with pytest.raises(OSError, match="closed"):
        file.read(0, 1)


def test_write_atomically_replaces_the_whole_file(disk: HostDisk, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    disk.write_atomically(str(path), b"first, longer")
    disk.write_atomically(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_created_directories_are_durable(disk: HostDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(HostDisk, "sync_dir", lambda self, path: synced.append(path))
    disk.make_dirs(str(tmp_path / "x" / "y"))
    assert (tmp_path / "x" / "y").is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "x")]
    disk.make_dirs(str(tmp_path / "x" / "y"))
    assert len(synced) == 2


def test_make_dirs_fails_where_a_file_exists(disk: HostDisk, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1")
    with pytest.raises(NotADirectoryError):
        disk.make_dirs(str(tmp_path / "x" / "y"))


def test_rename_across_directories(disk: HostDisk, tmp_path: Path) -> None:
    disk.make_dirs(str(tmp_path / "x" / "y"))
    disk.make_dirs(str(tmp_path / "x" / "y"))
    (tmp_path / "x" / "file").write_bytes(b"1")
    disk.rename(str(tmp_path / "x" / "file"), str(tmp_path / "x" / "y" / "file"))
    assert disk.list_dir(str(tmp_path / "x" / "y")) == ["file"]
    assert disk.size(str(tmp_path / "x" / "y" / "file")) == 1
    disk.remove_tree(str(tmp_path / "x"))
    assert not disk.exists(str(tmp_path / "x"))


def test_lock_excludes_this_and_other_processes(disk: HostDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = disk.lock(path)
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    with pytest.raises(BlockingIOError):
        HostDisk().lock(path)
    # The lock Java takes: a POSIX record lock, seen only from another process.
    other = "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.lockf(f, fcntl.LOCK_EX|fcntl.LOCK_NB)"
    assert subprocess.run([sys.executable, "-c", other, path], stderr=subprocess.DEVNULL, check=False).returncode != 0
    held.release()
    assert subprocess.run([sys.executable, "-c", other, path], check=False).returncode == 0
    disk.lock(path).release()


def test_usage_is_plausible(disk: HostDisk, tmp_path: Path) -> None:
    usage = disk.usage(str(tmp_path))
    assert 0 < usage.usable_bytes <= usage.total_bytes
