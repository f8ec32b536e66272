import asyncio
import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from odradek.base.ids import TopicPartition, uuid_from_text
from odradek.base.ports import Pool
from odradek.config.topic_config import TopicConfig
from odradek.host.disk import HostDisk
from odradek.records.batch import parse_batches
from odradek.storage.log.file_range import RangeEnded
from odradek.storage.log.log_dir import LogDir, LogDirError
from odradek.storage.log.log_dirs import LogDirOffline, LogDirs, WantedLog
from odradek.storage.log.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_threads import LogDirThreads, get_or_create
from tests.unit.storage.log.faulty_disk import FaultyDisk
from tests.unit.storage.log.log_support import DEFAULTS, NOW_MS, TOPIC_ID, batch, config, read_all

T = TypeVar("T")
CLUSTER = "uAS_hZWqSfiwvyKECFpdrg"
ORDERS = [TopicPartition("orders", n) for n in range(4)]


class Inline:
    """An executor that runs work immediately."""

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


class Node:
    """Log dirs that can be stopped, killed and restarted."""

    def __init__(self, root: Path, count: int = 1, disk: HostDisk | None = None) -> None:
        self.disk = disk or HostDisk()
        self.paths = [str(root / f"disk{n}") for n in range(count)]
        self._ids = itertools.count(1000)
        for path in self.paths:
            self.disk.make_dirs(path)
            write_meta_properties(self.disk, path, MetaProperties(CLUSTER, 1, self.new_id()))
        self.dirs = self.start()

    def new_id(self) -> UUID:
        return UUID(int=next(self._ids))

    def start(self, **options: Any) -> LogDirs:
        arguments: dict[str, Any] = {"node_id": 1, "cluster_id": CLUSTER, "new_id": self.new_id} | options
        self.dirs = LogDirs.open(self.disk, self.paths, **arguments)
        return self.dirs

    def load(self, topic_config: TopicConfig = DEFAULTS, **options: Any) -> list[Any]:
        jobs = self.dirs.loading_jobs(lambda _: topic_config, now_ms=NOW_MS, **options)
        return [failure for failure in (job() for job in jobs) if failure is not None]

    def stop(self, broker_epoch: int = 7) -> None:
        failures = [job() for job in self.dirs.closing_jobs()]
        assert not any(failures)
        assert self.dirs.close(broker_epoch) == []

    def kill(self) -> None:
        self.dirs.abandon()

    def create(self, name: TopicPartition, topic_config: TopicConfig = DEFAULTS, **options: Any) -> PartitionLog:
        (log,) = self.create_all(
            [WantedLog(name, TOPIC_ID, topic_config, options.pop("directory_id", None))], **options
        )
        if not isinstance(log, PartitionLog):
            raise log
        return log

    def create_all(self, wanted: list[WantedLog], **options: Any) -> list[Any]:
        arguments: dict[str, Any] = {
            "now_ms": NOW_MS,
            "threads_of": lambda path: LogDirThreads(path, Inline()),
        } | options
        return asyncio.run(get_or_create(self.dirs, wanted, **arguments))


def fill(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        data = bytearray(batch(2))
        log.append_as_leader(data, parse_batches(data), leader_epoch=0, now_ms=NOW_MS)


def test_partitions_go_to_the_log_dir_with_the_fewest(tmp_path: Path) -> None:
    node = Node(tmp_path, 3)
    for n in range(7):
        node.create(TopicPartition("t", n))
    assert sorted(len(one.logs) for one in node.dirs.online.values()) == [2, 2, 3]
    assert node.create(TopicPartition("t", 3)) is node.dirs.get(TopicPartition("t", 3))


def test_requested_log_dir_is_used(tmp_path: Path) -> None:
    node = Node(tmp_path, 3)
    for path, directory_id in node.dirs.directory_ids.items():
        name = TopicPartition("t", directory_id.int)
        assert node.dirs.dir_of(node.create(name, directory_id=directory_id)) == path


def test_replaced_log_dir_is_not_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    assert node.dirs.dir_of(node.create(TopicPartition("t", 9), directory_id=UUID(int=424242))) in node.paths
    lost, left = node.paths
    lost_id = node.dirs.directory_ids[lost]
    node.dirs.fail(lost, OSError(errno.EIO, "Input/output error"))
    for meant in (lost_id, UUID(int=424242)):
        with pytest.raises(LogDirOffline):
            node.create(TopicPartition("t", 8), directory_id=meant)
    assert node.dirs.dir_of(node.create(TopicPartition("t", 7))) == left


def test_clean_shutdown_and_start(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    for n, name in enumerate(ORDERS):
        fill(node.create(name), n + 1)
    log = node.dirs.get(ORDERS[3])
    assert log is not None
    log.advance_log_start(3)
    offsets = {name: n + 1 for n, name in enumerate(ORDERS)}
    assert node.dirs.in_every_dir(lambda one: one.checkpoint_high_watermarks(offsets)) == []
    node.stop(broker_epoch=42)
    for path in node.paths:
        assert Path(path, ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":42}'
    node.start()
    assert node.dirs.previous_broker_epoch == 42
    assert node.dirs.had_clean_shutdown
    assert not any(Path(path, ".kafka_cleanshutdown").exists() for path in node.paths)
    assert node.load() == []
    for n, name in enumerate(ORDERS):
        log = node.dirs.get(name)
        assert log is not None
        assert log.log_end_offset == log.recovery_point == (n + 1) * 2
        assert log.topic_id == TOPIC_ID
        assert node.dirs.checkpointed_high_watermark(name) == n + 1
    assert log.log_start_offset == 3


def test_start_after_a_kill(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    for name in ORDERS:
        fill(node.create(name), 5)
    flushed = node.dirs.get(ORDERS[0])
    assert flushed is not None
    flushed.flush(6)
    assert node.dirs.in_every_dir(LogDir.checkpoint_recovery_points) == []
    assert node.dirs.in_every_dir(LogDir.checkpoint_log_starts) == []
    node.kill()
    node.start()
    assert node.dirs.previous_broker_epoch == -1
    assert not node.dirs.had_clean_shutdown
    reported: list[Any] = []
    assert node.load(progress=reported.append) == []
    assert {one.topic_partition for one in reported} == set(ORDERS)
    for name in ORDERS:
        log = node.dirs.get(name)
        assert log is not None
        assert log.log_end_offset == 10
        assert log.recovery_point == (6 if name == ORDERS[0] else 0)
    # Only one log dir was closed cleanly: the broker epoch is unknown.
    node.stop()
    os.unlink(Path(node.paths[0], ".kafka_cleanshutdown"))
    assert node.start().previous_broker_epoch == -1


def test_checkpoint_files_have_kafkas_format(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for name in reversed(ORDERS[:2]):
        fill(node.create(name), 3)
    log = node.dirs.get(ORDERS[1])
    assert log is not None
    log.flush()
    log.advance_log_start(2)
    node.dirs.in_every_dir(LogDir.checkpoint_recovery_points)
    node.dirs.in_every_dir(LogDir.checkpoint_log_starts)
    node.dirs.in_every_dir(
        lambda one: one.checkpoint_high_watermarks({ORDERS[0]: 6, ORDERS[1]: 5, TopicPartition("gone", 0): 9})
    )
    directory = Path(node.paths[0])
    assert (directory / "recovery-point-offset-checkpoint").read_bytes() == b"0\n2\norders 0 0\norders 1 6\n"
    assert (directory / "log-start-offset-checkpoint").read_bytes() == b"0\n1\norders 1 2\n"
    assert (directory / "replication-offset-checkpoint").read_bytes() == b"0\n2\norders 0 6\norders 1 5\n"


def test_unchanged_checkpoints_are_not_written_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = Node(tmp_path, disk=disk)
    fill(node.create(ORDERS[0]), 1)
    node.dirs.in_every_dir(LogDir.checkpoint_recovery_points)
    disk.arm(-1)
    node.dirs.in_every_dir(LogDir.checkpoint_recovery_points)
    node.dirs.in_every_dir(LogDir.checkpoint_log_starts)
    assert disk.steps == []


@pytest.mark.parametrize("content", [b"garbage", b"0\n1\n", b"7\n0\n", b"0\n1\norders zero 5\n"])
def test_corrupt_checkpoints_lose_no_data(tmp_path: Path, content: bytes) -> None:
    node = Node(tmp_path)
    fill(node.create(ORDERS[0]), 3)
    node.kill()
    for name in ("recovery-point", "log-start", "replication"):
        Path(node.paths[0], f"{name}-offset-checkpoint").write_bytes(content)
    node.start()
    assert node.load() == []
    log = node.dirs.get(ORDERS[0])
    assert log is not None
    assert len(read_all(log)) == 3


def test_partition_deletion(tmp_path: Path) -> None:
    node = Node(tmp_path)
    log = node.create(ORDERS[0], config(file_delete_delay_ms=1000))
    fill(log, 1)
    node.dirs.delete(log, NOW_MS)
    assert node.dirs.get(ORDERS[0]) is None
    (marked,) = [name for name in os.listdir(node.paths[0]) if name.startswith("orders")]
    assert marked.startswith("orders-0.")
    assert marked.endswith("-delete")
    assert node.dirs.in_every_dir(lambda one: one.remove_deleted(NOW_MS + 999)) == []
    assert marked in os.listdir(node.paths[0])
    assert node.dirs.in_every_dir(lambda one: one.remove_deleted(NOW_MS + 1000)) == []
    assert marked not in os.listdir(node.paths[0])


def test_partition_deletion_ends_the_ranges_of_segments_that_retention_deleted_before(tmp_path: Path) -> None:
    """Their files are removed with the directory: a slow reader must not keep their space."""
    node = Node(tmp_path)
    log = node.create(ORDERS[0], config(file_delete_delay_ms=1000, retention_ms=1))
    fill(log, 1)
    batches = log.find_batches(0, 1000, end_offset_exclusive=log.log_end_offset).batches
    assert batches is not None
    late = NOW_MS + 3_600_000
    assert log.delete_old_segments(late, log.log_end_offset) == 1
    node.dirs.delete(log, late)
    assert batches.read(cached=False)
    assert node.dirs.in_every_dir(lambda one: one.remove_deleted(late + 1000)) == []
    with pytest.raises(RangeEnded):
        batches.read(cached=False)


def test_interrupted_deletion_is_completed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    log = node.create(ORDERS[0])
    node.dirs.delete(log, NOW_MS)
    node.kill()
    node.start()
    assert node.load() == []
    assert node.dirs.get(ORDERS[0]) is None
    assert node.dirs.in_every_dir(lambda one: one.remove_deleted(NOW_MS)) == []
    assert not [name for name in os.listdir(node.paths[0]) if name.startswith("orders")]


def test_new_partition_does_not_inherit_the_checkpoints_of_a_deleted_one(tmp_path: Path) -> None:
    node = Node(tmp_path)
    log = node.create(ORDERS[0])
    fill(log, 50)
    log.flush()
    log.advance_log_start(77)
    node.dirs.in_every_dir(LogDir.checkpoint_recovery_points)
    node.dirs.in_every_dir(LogDir.checkpoint_log_starts)
    node.dirs.delete(log, NOW_MS)
    fill(node.create(ORDERS[0]), 3)
    node.kill()
    node.start()
    node.load()
    again = node.dirs.get(ORDERS[0])
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 6, 0)


def test_stray_logs_are_renamed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for name in ORDERS[:2]:
        fill(node.create(name), 1)
    node.stop()
    node.start()
    checked: list[tuple[TopicPartition, UUID | None]] = []

    def is_stray(name: TopicPartition, topic_id: UUID | None) -> bool:
        checked.append((name, topic_id))
        return name == ORDERS[1]

    assert node.load(is_stray=is_stray) == []
    assert checked == [(ORDERS[0], TOPIC_ID), (ORDERS[1], TOPIC_ID)]
    assert node.dirs.get(ORDERS[1]) is None
    (aside,) = [name for name in os.listdir(node.paths[0]) if name.endswith("-stray")]
    assert Path(node.paths[0], aside, "00000000000000000000.log").stat().st_size > 0
    # The next start ignores it.
    node.stop()
    node.start()
    assert node.load() == []
    assert aside in os.listdir(node.paths[0])


def test_promoted_future_log_replaces_the_original(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    log = node.create(ORDERS[0])
    fill(log, 3)
    source = node.dirs.dir_of(log)
    target = next(path for path in node.paths if path != source)
    copy = node.dirs.create_future(ORDERS[0], TOPIC_ID, DEFAULTS, target, NOW_MS)
    assert copy.directory.endswith("-future")
    assert node.dirs.get(ORDERS[0]) is log
    node.stop()
    node.start()
    node.load()
    copy = node.dirs.online[target].future_logs[ORDERS[0]]
    original = node.dirs.get(ORDERS[0])
    assert original is not None
    data = original.read(0, 1 << 20, end_offset_exclusive=6).data
    copy.append_as_follower(data, parse_batches(data), now_ms=NOW_MS)
    node.dirs.promote(copy)
    node.dirs.delete(original, NOW_MS)
    assert node.dirs.get(ORDERS[0]) is copy
    assert copy.directory == f"{target}/orders-0"
    assert len(read_all(copy)) == 3
    with pytest.raises(OSError, match="not online"):
        node.dirs.create_future(ORDERS[0], TOPIC_ID, DEFAULTS, "/nowhere", NOW_MS)


def test_future_log_ignores_checkpoints_of_an_earlier_log(tmp_path: Path) -> None:
    """The replica moved away and back before a power loss: the checkpoint still belongs to the earlier log."""
    small = config(segment_bytes=150)
    node = Node(tmp_path, 2)
    log = node.create(ORDERS[0], small)
    fill(log, 3)
    log.flush(log.log_end_offset)
    assert node.dirs.in_every_dir(LogDir.checkpoint_recovery_points) == []
    home = node.dirs.dir_of(log)
    node.dirs.delete(log, NOW_MS)
    copy = node.dirs.create_future(ORDERS[0], TOPIC_ID, small, home, NOW_MS)
    fill(copy, 3)
    _, second, third = copy.segments
    assert third.base_offset < log.recovery_point
    node.kill()
    torn = Path(copy.directory, f"{second.base_offset:020}.log")
    torn.write_bytes(torn.read_bytes()[:-5])
    node.start()
    assert node.load(small) == []
    assert node.dirs.online[home].future_logs[ORDERS[0]].log_end_offset == second.base_offset


def test_only_the_failed_log_dir_goes_offline(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    for name in ORDERS:
        fill(node.create(name), 1)
    lost, kept = node.paths
    gone = node.dirs.fail(lost, OSError(errno.EIO, "Input/output error"))
    assert len(gone) == 2
    assert all(node.dirs.get(name) is None for name in gone)
    assert list(node.dirs.online) == [kept]
    assert node.dirs.fail(lost, OSError(errno.EIO, "again")) == []
    assert node.dirs.dir_of(node.create(TopicPartition("new", 0))) == kept
    # The lock is released, so that the disk can be repaired and mounted elsewhere.
    HostDisk().lock(f"{lost}/.lock").release()
    node.stop()
    assert not Path(lost, ".kafka_cleanshutdown").exists()
    assert Path(kept, ".kafka_cleanshutdown").exists()


def test_disk_failure_during_loading_is_reported(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    for name in ORDERS:
        fill(node.create(name), 1)
    node.kill()
    node.start()
    next(Path(node.paths[1]).glob("orders-*/partition.metadata")).write_bytes(b"nonsense")
    (failure,) = node.load()
    assert failure.directory == node.paths[1]
    assert "partition.metadata" in str(failure.error)


def test_checkpoint_failures_name_their_log_dir(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = Node(tmp_path, 2, disk=disk)
    for name in ORDERS:
        fill(node.create(name), 1)
    disk.arm(0)
    (failure,) = node.dirs.in_every_dir(LogDir.checkpoint_recovery_points)
    assert failure.directory == node.paths[0]
    assert failure.error.errno == errno.ENOSPC


def test_locked_log_dir_is_rejected(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with pytest.raises(LogDirError, match="locked by another process"):
        LogDirs.open(HostDisk(), node.paths, node_id=1, cluster_id=CLUSTER, new_id=node.new_id)
    node.kill()
    node.start()


def test_log_dir_of_another_cluster_or_node_is_rejected(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    node.kill()
    with pytest.raises(LogDirError, match=f"belongs to cluster {CLUSTER}, not to other"):
        node.start(cluster_id="other")
    with pytest.raises(LogDirError, match="belongs to node 1, but this is node 2"):
        node.start(node_id=2)
    write_meta_properties(node.disk, node.paths[1], MetaProperties("other", 1, node.new_id()))
    with pytest.raises(LogDirError, match="belongs to cluster other"):
        node.start(cluster_id=None)
    # A rejected log dir is not locked.
    for path in node.paths:
        HostDisk().lock(f"{path}/.lock").release()


def test_unformatted_log_dirs_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(LogDirError, match="not formatted"):
        LogDirs.open(HostDisk(), [str(tmp_path / "none")], node_id=1, cluster_id=None, new_id=lambda: UUID(int=999))
    node = Node(tmp_path / "one")
    node.kill()
    node.paths.append(str(tmp_path / "new"))
    dirs = node.start(cluster_id=None)
    # A new log dir gets its identity automatically.
    meta = read_meta_properties(node.disk, node.paths[1])
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (CLUSTER, 1)
    assert dirs.directory_ids[node.paths[1]] == meta.directory_id
    assert dirs.cluster_id == CLUSTER


def test_log_dir_that_cannot_be_created_is_offline(tmp_path: Path) -> None:
    class ReadOnly(HostDisk):
        def make_dirs(self, path: str, *, durable: bool = True) -> None:
            if path.endswith("disk1"):
                raise OSError(errno.EROFS, "Read-only file system", path)
            super().make_dirs(path, durable=durable)

    node = Node(tmp_path, 2)
    node.kill()
    node.disk = ReadOnly()
    dirs = node.start()
    assert list(dirs.online) == [node.paths[0]]
    assert dirs.offline[node.paths[1]].errno == errno.EROFS
    assert dirs.previous_broker_epoch == -1
    node.kill()
    node.paths = node.paths[1:]
    with pytest.raises(LogDirError, match="Read-only file system"):
        node.start()


@pytest.mark.parametrize(
    "content",
    ["version=0\nbroker.id=1\n", "version=1\nnode.id=x\ncluster.id=c\n", "version=1\nnode.id=1\n", "version=9\n"],
)
def test_malformed_meta_properties(tmp_path: Path, content: str) -> None:
    node = Node(tmp_path)
    node.kill()
    Path(node.paths[0], "meta.properties").write_text(content)
    with pytest.raises(LogDirError, match=r"meta\.properties"):
        node.start()


def test_meta_properties_written_by_java(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sun Nov 15 20:06:59 UTC 2026\nnode.id=1\ndirectory.id=knqCFr44PwlParkbFRDRNQ\nversion=1\n"
        "cluster.id=uAS_hZWqSfiwvyKECFpdrg\n"
    )
    expected = MetaProperties(CLUSTER, 1, uuid_from_text("knqCFr44PwlParkbFRDRNQ"))
    assert read_meta_properties(HostDisk(), str(tmp_path)) == expected
    write_meta_properties(HostDisk(), str(tmp_path), expected)
    assert read_meta_properties(HostDisk(), str(tmp_path)) == expected


def test_unrelated_files_in_a_log_dir_are_kept(tmp_path: Path) -> None:
    node = Node(tmp_path)
    fill(node.create(ORDERS[0]), 1)
    node.stop()
    for name in ("lost+found", "remote-log-index-cache", "__cluster_metadata-0"):
        Path(node.paths[0], name).mkdir()
    Path(node.paths[0], "notes-1").write_text("a file")
    node.start()
    assert node.load() == []
    assert [log.topic_partition for log in node.dirs.logs()] == ORDERS[:1]
    assert Path(node.paths[0], "lost+found").is_dir()


def test_directories_of_the_last_run_are_synced_before_use(tmp_path: Path) -> None:
    class Recorded(HostDisk):
        def __init__(self) -> None:
            super().__init__()
            self.synced: list[str] = []

        def sync_dir(self, path: str) -> None:
            self.synced.append(path)
            super().sync_dir(path)

    disk = Recorded()
    node = Node(tmp_path, disk=disk)
    node.dirs.abandon()
    disk.synced.clear()
    node.start()
    assert disk.synced == node.paths
