import errno
from collections.abc import Callable

import pytest

from odradek.sim.computer import Computer
from odradek.sim.disk import FileNode, VirtualDisk
from odradek.sim.disk_port import VirtualDiskPort
from odradek.sim.world import World


@pytest.fixture
def computer(world: World) -> Computer:
    return world.add_computer("one")


@pytest.fixture
def disk(computer: Computer) -> VirtualDiskPort:
    port = computer.new_process().disk
    port.make_dirs("/data/logs")
    return port


def contents(disk: VirtualDisk) -> dict[str, bytes]:
    return {path: node.cached.read(0, node.cached.size) for path, node in disk.files()}


def test_files_are_written_read_and_resized(disk: VirtualDiskPort) -> None:
    file = disk.open("/data/a", create=True)
    file.write_at(3, b"defg")
    file.append([b"hi", b"j"])
    assert file.read(0, 100) == b"\0\0\0defghij"
    file.write_at(0, b"abc")
    assert disk.read_bytes("/data/a") == b"abcdefghij"
    file.truncate(4)
    assert (file.size(), disk.size("/data/a")) == (4, 4)
    file.truncate(6)
    assert file.read(0, 100) == b"abcd\0\0"
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.read(0, 1)


def test_a_sparse_file_takes_no_room(disk: VirtualDiskPort) -> None:
    file = disk.open("/data/a", create=True)
    file.truncate(1 << 40)
    file.write_at(10, b"x")
    assert file.read(9, 3) == b"\0x\0"
    assert file.read((1 << 40) - 2, 10) == b"\0\0"


def test_files_and_directories_are_renamed_and_removed(disk: VirtualDiskPort) -> None:
    disk.open("/data/a", create=True).write_at(0, b"1")
    disk.rename("/data/a", "/data/b")
    assert sorted(disk.list_dir("/data")) == ["b", "logs"]
    assert (disk.exists("/data/a"), disk.is_dir("/data/logs"), disk.is_dir("/data/b")) == (False, True, False)
    disk.rename("/data/logs", "/data/old")
    disk.open("/data/old/x", create=True)
    disk.remove_tree("/data/old")
    disk.remove("/data/b")
    assert disk.list_dir("/data") == []


def test_missing_files_raise_file_not_found(disk: VirtualDiskPort) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: disk.open("/data/none"),
        lambda: disk.read_bytes("/data/none"),
        lambda: disk.list_dir("/none"),
        lambda: disk.remove("/data/none"),
        lambda: disk.rename("/data/none", "/data/other"),
        lambda: disk.open("/none/a", create=True),
    ]
    for attempt in attempts:
        with pytest.raises(FileNotFoundError):
            attempt()


def test_an_open_file_outlives_its_name(disk: VirtualDiskPort) -> None:
    file = disk.open("/data/a", create=True)
    disk.remove("/data/a")
    file.write_at(0, b"still")
    assert file.read(0, 10) == b"still"
    assert not disk.exists("/data/a")


def test_a_killed_process_leaves_the_page_cache_and_frees_its_locks(computer: Computer, disk: VirtualDiskPort) -> None:
    disk.open("/data/a", create=True).write_at(0, b"unsynced")
    disk.lock("/data/.lock")
    other = computer.new_process().disk
    with pytest.raises(BlockingIOError):
        other.lock("/data/.lock")
    disk.process.kill()
    assert other.read_bytes("/data/a") == b"unsynced"
    other.lock("/data/.lock").release()
    other.lock("/data/.lock")


def power_losses(seed: int, prepare: Callable[[VirtualDiskPort], None]) -> dict[str, bytes]:
    world = World(seed)
    computer = world.add_computer("one")
    port = computer.new_process().disk
    port.make_dirs("/data")
    prepare(port)
    computer.lose_power()
    return contents(computer.disk)


def outcomes(prepare: Callable[[VirtualDiskPort], None]) -> list[dict[str, bytes]]:
    return [power_losses(seed, prepare) for seed in range(60)]


def test_synced_bytes_and_names_survive_a_power_loss(world: World) -> None:
    def prepare(disk: VirtualDiskPort) -> None:
        file = disk.open("/data/a", create=True)
        file.write_at(0, b"synced")
        file.sync()
        disk.sync_dir("/data")

    assert all(left == {"/data/a": b"synced"} for left in outcomes(prepare))


def test_a_power_loss_loses_random_parts_of_unsynced_bytes() -> None:
    body = b"x" * 2000

    def prepare(disk: VirtualDiskPort) -> None:
        file = disk.open("/data/a", create=True)
        file.write_at(0, b"synced")
        file.sync()
        disk.sync_dir("/data")
        file.write_at(6, body)
        file.write_at(2006, b"end")

    left = [one["/data/a"] for one in outcomes(prepare)]
    assert all(one.startswith(b"synced") for one in left)
    assert b"synced" in left
    assert b"synced" + body + b"end" in left
    assert any(6 < len(one) < 2006 and b"\0" not in one for one in left), "torn at a sector"
    assert any(b"\0" in one for one in left), "a hole"
    assert all((len(one) - 512) % 512 == 0 for one in left if 512 <= len(one) < 2006)


def test_a_power_loss_may_lose_unsynced_names() -> None:
    def prepare(disk: VirtualDiskPort) -> None:
        file = disk.open("/data/a", create=True)
        file.write_at(0, b"synced")
        file.sync()

    left = outcomes(prepare)
    assert {} in left
    assert {"/data/a": b"synced"} in left


def test_a_rename_is_atomic() -> None:
    def prepare(disk: VirtualDiskPort) -> None:
        disk.write_atomically("/data/a", b"old")
        file = disk.open("/data/b", create=True)
        file.write_at(0, b"new")
        file.sync()
        disk.sync_dir("/data")
        disk.rename("/data/b", "/data/a", durable=False)

    left = outcomes(prepare)
    before, after = {"/data/a": b"old", "/data/b": b"new"}, {"/data/a": b"new"}
    assert all(one in (before, after) for one in left)
    assert before in left
    assert after in left


def test_an_atomic_write_is_durable() -> None:
    def prepare(disk: VirtualDiskPort) -> None:
        disk.write_atomically("/data/a", b"first")
        disk.write_atomically("/data/a", b"second")

    assert all(one == {"/data/a": b"second"} for one in outcomes(prepare))


def test_a_full_disk_writes_a_part_and_then_fails(computer: Computer, disk: VirtualDiskPort) -> None:
    file = disk.open("/data/a", create=True)
    computer.disk_condition.room_bytes = 5
    with pytest.raises(OSError) as raised:
        file.write_at(0, b"0123456789")
    assert raised.value.errno == errno.ENOSPC
    assert file.read(0, 100) == b"01234"
    file.write_at(0, b"abcde")
    with pytest.raises(OSError):
        file.append([b"x"])
    assert file.read(0, 100) == b"abcde"
    with pytest.raises(OSError):
        disk.open("/data/b", create=True)
    assert disk.usage("/data").usable_bytes == 0
    computer.disk_condition.reset()
    file.append([b"f"])
    assert file.read(0, 100) == b"abcdef"


@pytest.mark.parametrize(
    ("kind", "attempt"),
    [
        ("read", lambda disk: disk.read_bytes("/data/a")),
        ("write", lambda disk: disk.open("/data/a").write_at(0, b"x")),
        ("sync", lambda disk: disk.open("/data/a").sync()),
        ("sync", lambda disk: disk.sync_dir("/data")),
    ],
)
def test_a_failing_disk_raises_eio(
    computer: Computer, disk: VirtualDiskPort, kind: str, attempt: Callable[[VirtualDiskPort], object]
) -> None:
    disk.open("/data/a", create=True)
    disk.make_dirs("/elsewhere")
    computer.disk_condition.failing[kind] = "/data"
    with pytest.raises(OSError) as raised:
        attempt(disk)
    assert raised.value.errno == errno.EIO
    assert computer.disk_condition.has_failed
    disk.open("/elsewhere/a", create=True).sync()


def test_after_a_failed_sync_the_bytes_are_never_written(computer: Computer, disk: VirtualDiskPort) -> None:
    file = disk.open("/data/a", create=True)
    disk.sync_dir("/data")
    file.write_at(0, b"doomed")
    computer.disk_condition.failing["sync"] = "/data"
    with pytest.raises(OSError):
        file.sync()
    computer.disk_condition.reset()
    with pytest.raises(OSError):
        file.sync()
    # After the file is opened again, sync succeeds although the bytes are not written.
    disk.open("/data/a").sync()
    assert disk.read_bytes("/data/a") == b"doomed"
    computer.lose_power()
    assert contents(computer.disk) == {"/data/a": b""}


def test_some_reads_miss_the_page_cache(disk: VirtualDiskPort) -> None:
    file = disk.open("/data/a", create=True)
    file.write_at(0, b"x")
    found = [file.read_cached(0, 1) for _ in range(1000)]
    assert set(found) == {b"x", None}
    assert found.count(None) < 100


def test_a_flipped_bit_is_durable() -> None:
    node = FileNode()
    node.write(0, b"\0\0", 0)
    node.sync()
    node.flip_bit(1, 3)
    assert node.cached.read(0, 2) == node.durable.read(0, 2) == b"\0\x08"


def test_a_copy_has_the_page_cache_of_the_original_and_is_durable(world: World, disk: VirtualDiskPort) -> None:
    original, other = world.computers["one"], world.add_computer("other")
    file = disk.open("/data/logs/a", create=True)
    file.write_at(0, b"unsynced")
    other.disk.copy_from(original.disk)
    file.write_at(0, b"later")
    other.lose_power()
    assert contents(other.disk) == {"/data/logs/a": b"unsynced"}
    assert contents(original.disk) == {"/data/logs/a": b"laterced"}
