"""A full or failing log dir returns KAFKA_STORAGE_ERROR; the other log dirs keep serving and no record is lost."""

import contextlib
import errno
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from odradek.broker.directory_assignments import DirectoryAssignments
from tests.apis import Api
from tests.odradek_process import OdradekProcess
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response
from tests.wire.hosted_node import HostedNode
from tests.wire.plain_requests import (
    as_fetched,
    create_topic,
    delete_topic,
    fetch,
    fetch_fields,
    filled_values,
    leaders,
    produce,
    until,
)
from tests.wire.small_filesystem import SmallFilesystem, require_mounts, small_filesystem
from tests.wire.tampered_disk import Interference, TamperedDisk

TOPIC = "spread"
VALUE_BYTES = 100_000


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallFilesystem]:
    require_mounts()
    with small_filesystem(tmp_path / "small", megabytes=16) as filesystem:
        yield filesystem


def data_dir(filesystem: SmallFilesystem) -> Path:
    """A subdirectory, so that the file that fills the disk is not among the node's files."""
    return filesystem.path / "data"


def partitions_in(log_dir: Path, topic: str = TOPIC) -> list[int]:
    found = (path.name.removeprefix(f"{topic}-") for path in log_dir.glob(f"{topic}-*"))
    return sorted(int(name) for name in found if name.isdecimal())


def fill_partition(connection: RawConnection, partition: int, count: int = 400) -> tuple[list[bytes], ErrorCode]:
    """Produces until the broker returns an error; returns the acknowledged values and the error."""
    acknowledged: list[bytes] = []
    for value in filled_values(count, VALUE_BYTES):
        response = produce(connection, TOPIC, value, partition=partition)
        if response.error is not ErrorCode.none:
            return acknowledged, response.error
        assert response.offset == len(acknowledged)
        acknowledged.append(value)
    return acknowledged, ErrorCode.none


def read_all(connection: RawConnection, partition: int, topic: str = TOPIC) -> list[bytes]:
    values: list[bytes] = []
    while True:
        found = fetch(connection, topic, len(values), partition=partition, max_bytes=1 << 20)
        assert found.error is ErrorCode.none, found.error
        values += found.values
        if len(values) >= found.high_watermark:
            return values


def run_to_end(node: OdradekProcess) -> tuple[int, list[str]]:
    """Runs a node that is expected to exit; returns its exit code and its output."""
    before = len(node.output_file.read_text().splitlines()) if node.output_file.exists() else 0
    node.spawn()
    assert node.process is not None
    try:
        code = node.process.wait(20)
    except subprocess.TimeoutExpired:
        node.kill()
        pytest.fail("the node keeps running")
    return code, node.output_file.read_text().splitlines()[before:]


def error_line(lines: list[str]) -> str:
    """Returns the only error line, and checks that there is no traceback."""
    assert not any("Traceback" in line for line in lines), "\n".join(lines)
    (found,) = (line for line in lines if line.startswith("error: "))
    return found


def test_new_partitions_are_placed_in_the_log_dir_with_the_fewest(tmp_path: Path) -> None:
    dirs = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    node = OdradekProcess(tmp_path, log_dirs=dirs).start()
    try:
        with RawConnection(node.port) as connection:
            assert create_topic(connection, TOPIC, partitions=9) is ErrorCode.none
            assert [len(partitions_in(path)) for path in dirs] == [3, 3, 3]
            assert create_topic(connection, "more", partitions=2) is ErrorCode.none
            counts = [len(partitions_in(path)) + len(partitions_in(path, "more")) for path in dirs]
            assert sorted(counts) == [3, 4, 4]
    finally:
        node.kill()


def test_full_log_dir_goes_offline_while_the_other_keeps_serving(tmp_path: Path, small: SmallFilesystem) -> None:
    roomy = tmp_path / "roomy"
    node = OdradekProcess(tmp_path, log_dirs=[roomy, data_dir(small)]).start()
    try:
        with RawConnection(node.port) as connection:
            assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
            (full,), (healthy,) = partitions_in(data_dir(small)), partitions_in(roomy)
            assert produce(connection, TOPIC, b"before", partition=healthy).error is ErrorCode.none
            acknowledged, refusal = fill_partition(connection, full)
            assert refusal is ErrorCode.kafka_storage_error
            assert len(acknowledged) > 50
            # The whole log dir is offline: it rejects writes, and its records cannot be read.
            assert produce(connection, TOPIC, b"again", partition=full).error is ErrorCode.kafka_storage_error
            assert fetch(connection, TOPIC, partition=full).error is ErrorCode.kafka_storage_error
            # The other log dir is not affected.
            assert produce(connection, TOPIC, b"after", partition=healthy).error is ErrorCode.none
            assert read_all(connection, healthy) == [b"before", b"after"]
            until(lambda: leaders(connection, TOPIC)[full][1] == -1, what="the report of the offline log dir")
            assert leaders(connection, TOPIC)[healthy] == (ErrorCode.none, 1)
            # New partitions are placed in the online log dir.
            assert create_topic(connection, "later") is ErrorCode.none
            assert partitions_in(roomy, "later") == [0]
            assert produce(connection, "later", b"value").error is ErrorCode.none
        node.stop()
        # With no free byte on that disk, the node still starts and the healthy log dir serves.
        small.fill()
        node.start()
        with RawConnection(node.port) as connection:
            assert read_all(connection, healthy) == [b"before", b"after"]
            assert produce(connection, TOPIC, b"while full", partition=healthy).error is ErrorCode.none
            assert produce(connection, TOPIC, b"while full", partition=full).error is ErrorCode.kafka_storage_error
            assert fetch(connection, TOPIC, partition=full).error is ErrorCode.kafka_storage_error
        node.stop()
        small.make_room()
        small.resize(64)
        node.start()
        with RawConnection(node.port) as connection:
            until(
                lambda: leaders(connection, TOPIC)[full][1] == 1,
                what="a leader for the partition in the restored log dir",
            )
            assert read_all(connection, full) == acknowledged
            assert produce(connection, TOPIC, b"next", partition=full).offset == len(acknowledged)
            assert read_all(connection, healthy) == [b"before", b"after", b"while full"]
    finally:
        node.kill()


def test_log_dir_move_to_a_full_disk_leaves_the_partition_in_place(tmp_path: Path, small: SmallFilesystem) -> None:
    roomy = tmp_path / "roomy"
    node = OdradekProcess(tmp_path, log_dirs=[roomy, data_dir(small)]).start()
    try:
        with RawConnection(node.port) as connection:
            assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
            (staying,) = partitions_in(roomy)
            acknowledged, _ = fill_partition(connection, staying, count=200)
            assert len(acknowledged) == 200
            moved = [{"name": TOPIC, "partitions": [staying]}]
            wanted = {"dirs": [{"path": str(data_dir(small)), "topics": moved}]}
            response = connection.request(Api.ALTER_REPLICA_LOG_DIRS, 2, wanted)
            assert response.results[0].partitions[0].error_code is ErrorCode.none
            other = 1 - staying
            until(
                lambda: produce(connection, TOPIC, b"x", partition=other).error is ErrorCode.kafka_storage_error,
                what="the small log dir going offline",
            )
            assert produce(connection, TOPIC, b"last", partition=staying).offset == 200
            assert read_all(connection, staying) == [*acknowledged, b"last"]
        node.stop()
        small.resize(64)
        node.start()
        with RawConnection(node.port) as connection:
            assert read_all(connection, staying) == [*acknowledged, b"last"]
    finally:
        node.kill()


def test_node_exits_with_advice_when_its_last_log_dir_is_full(tmp_path: Path, small: SmallFilesystem) -> None:
    node = OdradekProcess(tmp_path, log_dirs=[data_dir(small)]).start()
    try:
        with RawConnection(node.port) as connection:
            assert create_topic(connection, TOPIC) is ErrorCode.none
            try:
                acknowledged, refusal = fill_partition(connection, 0)
                assert refusal is ErrorCode.kafka_storage_error
            except ConnectionClosed:
                pytest.fail("the broker closed the connection without an error response")
        assert node.process is not None
        assert node.process.wait(60) == 1
        line = error_line(node.output_file.read_text().splitlines())
        assert str(data_dir(small)) in line
        assert "Free space or repair the disk" in line
        # With no free byte, each start fails with the same advice and does no damage.
        small.fill()
        for _ in range(2):
            code, lines = run_to_end(node)
            assert code == 2
            assert "No space left" in error_line(lines)
            assert str(data_dir(small)) in error_line(lines)
            assert "Free space or repair the disk" in error_line(lines)
        small.make_room()
        small.resize(64)
        node.start()
        with RawConnection(node.port) as connection:
            assert read_all(connection, 0) == acknowledged
            assert produce(connection, TOPIC, b"next").offset == len(acknowledged)
    finally:
        node.kill()


# Failures that no file system produces on demand, injected through the Disk port of an in-process node.


class TwoDirs:
    """A node with two log dirs, the metadata in the first, and a topic with a partition in each."""

    def __init__(self, directory: Path, disk: TamperedDisk, flush_messages: int | None = None) -> None:
        self.directory = directory
        self.disk = disk
        self.first, self.second = directory / "first", directory / "second"
        self.node = HostedNode(directory, disk=disk, log_dirs=[self.first, self.second])
        self.configs = {} if flush_messages is None else {"flush.messages": str(flush_messages)}
        self.healthy = self.failing = -1

    def __enter__(self) -> "TwoDirs":
        self.node.__enter__()
        with self.connect() as connection:
            assert create_topic(connection, TOPIC, partitions=2, configs=self.configs) is ErrorCode.none
        (self.healthy,), (self.failing,) = partitions_in(self.first), partitions_in(self.second)
        return self

    def __exit__(self, *error: object) -> None:
        self.disk.interfere = lambda *_: None
        self.node.__exit__(None, None, None)

    def connect(self) -> RawConnection:
        return RawConnection(self.node.port)

    def assert_only_second_failed(self, connection: RawConnection) -> None:
        assert self.node.failure is None
        assert fetch(connection, TOPIC, partition=self.failing).error is ErrorCode.kafka_storage_error
        assert produce(connection, TOPIC, b"x", partition=self.failing).error is ErrorCode.kafka_storage_error
        assert produce(connection, TOPIC, b"x", partition=self.healthy).error is ErrorCode.none


def failing_under(directory: Path, *operations: str, code: int = errno.EIO) -> Interference:
    def interfere(operation: str, path: str) -> None:
        if operation in operations and path.startswith(str(directory)):
            raise OSError(code, "Input/output error" if code == errno.EIO else errno.errorcode[code], path)

    return interfere


@pytest.fixture
def disk() -> TamperedDisk:
    return TamperedDisk()


def test_failed_write_takes_its_log_dir_offline(tmp_path: Path, disk: TamperedDisk) -> None:
    with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection:
        assert produce(connection, TOPIC, b"kept", partition=dirs.failing).offset == 0
        disk.interfere = failing_under(dirs.second, "write")
        refused = produce(connection, TOPIC, b"refused", partition=dirs.failing)
        assert (refused.error, refused.offset) == (ErrorCode.kafka_storage_error, -1)
        dirs.assert_only_second_failed(connection)
    with (
        HostedNode(tmp_path, log_dirs=[dirs.first, dirs.second]) as restarted,
        RawConnection(restarted.port) as connection,
    ):
        until(lambda: leaders(connection, TOPIC)[dirs.failing][1] == 1, what="a leader")
        assert read_all(connection, dirs.failing) == [b"kept"]


def test_failed_fsync_acknowledges_nothing_and_is_never_retried(tmp_path: Path, disk: TamperedDisk) -> None:
    with TwoDirs(tmp_path, disk, flush_messages=1) as dirs, dirs.connect() as connection:
        assert produce(connection, TOPIC, b"kept", partition=dirs.failing).offset == 0
        log = f"{TOPIC}-{dirs.failing}/"
        syncs = disk.count("sync", log)
        disk.interfere = failing_under(dirs.second, "sync")
        assert produce(connection, TOPIC, b"lost", partition=dirs.failing).error is ErrorCode.kafka_storage_error
        assert disk.count("sync", log) == syncs + 1
        disk.interfere = lambda *_: None
        # A second fsync would succeed, although the kernel has dropped the data.
        assert produce(connection, TOPIC, b"again", partition=dirs.failing).error is ErrorCode.kafka_storage_error
        assert disk.count("sync", log) == syncs + 1
        dirs.assert_only_second_failed(connection)


def test_failed_read_takes_its_log_dir_offline(tmp_path: Path, disk: TamperedDisk) -> None:
    with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection:
        produce(connection, TOPIC, b"value", partition=dirs.failing)
        disk.interfere = failing_under(dirs.second, "read_cached")
        assert fetch(connection, TOPIC, partition=dirs.failing).error is ErrorCode.kafka_storage_error
        disk.interfere = lambda *_: None
        dirs.assert_only_second_failed(connection)


def test_long_poll_returns_the_storage_error_at_once(tmp_path: Path, disk: TamperedDisk) -> None:
    with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection, dirs.connect() as reader:
        reader.socket.settimeout(30)
        reader.send(Api.FETCH, 12, fetch_fields(TOPIC, 0, partition=dirs.failing, max_wait_ms=60_000))
        disk.interfere = failing_under(dirs.second, "write")
        produce(connection, TOPIC, b"refused", partition=dirs.failing)
        response = as_fetched(decode_response(Api.FETCH, 12, reader.receive()))
        assert response.error is ErrorCode.kafka_storage_error


def test_log_dir_that_cannot_create_a_partition_is_skipped(tmp_path: Path, disk: TamperedDisk) -> None:
    with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection:
        disk.interfere = failing_under(dirs.second, "make_dirs", code=errno.ENOSPC)
        assert create_topic(connection, "later", partitions=2) is ErrorCode.none
        assert partitions_in(dirs.first, "later") == [0, 1]
        for partition in range(2):
            assert produce(connection, "later", b"value", partition=partition).error is ErrorCode.none
        dirs.assert_only_second_failed(connection)


def test_topic_deletion_succeeds_when_its_disk_fails(tmp_path: Path, disk: TamperedDisk) -> None:
    with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection:
        disk.interfere = failing_under(dirs.second, "rename")
        connection.socket.settimeout(30)
        assert delete_topic(connection, TOPIC) is ErrorCode.none
        # The controller keeps working, and new partitions are placed on the other disk.
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
        assert partitions_in(dirs.first) == [0, 1]
        assert produce(connection, TOPIC, b"value", partition=1).offset == 0
    assert dirs.node.failure is None


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_node_exits_when_its_metadata_log_fails(tmp_path: Path, disk: TamperedDisk, operation: str) -> None:
    with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection:
        disk.interfere = failing_under(dirs.first / "__cluster_metadata-0", operation)
        connection.socket.settimeout(30)
        with contextlib.suppress(ConnectionClosed):
            assert create_topic(connection, "refused") is not ErrorCode.none
        until(lambda: dirs.node.failure is not None, what="the exit of the node")
        assert dirs.node.failure is not None
        assert f"The metadata log dir {dirs.first} failed" in dirs.node.failure
        assert "Input/output error" in dirs.node.failure
    # The topic was not acknowledged, so it may or may not exist; everything else must.
    with (
        HostedNode(tmp_path, log_dirs=[dirs.first, dirs.second]) as restarted,
        RawConnection(restarted.port) as connection,
    ):
        until(lambda: leaders(connection, TOPIC)[0][1] == 1, what="a leader")
        assert produce(connection, TOPIC, b"value").error is ErrorCode.none


def test_node_exits_when_a_separate_metadata_log_dir_fails(tmp_path: Path, disk: TamperedDisk) -> None:
    metadata = tmp_path / "metadata"
    node = HostedNode(tmp_path, disk=disk, properties={"metadata.log.dir": str(metadata)})
    with node, RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        assert not (node.log_dirs[0] / "__cluster_metadata-0").exists()
        second = OdradekProcess(
            tmp_path / "second", properties={"metadata.log.dir": str(metadata)}, log_dirs=[tmp_path / "second" / "data"]
        )
        second.log_dirs[0].mkdir(parents=True)
        shutil.copy(node.log_dirs[0] / "meta.properties", second.log_dirs[0])
        code, lines = run_to_end(second)
        assert code == 2
        assert f"{metadata} is locked by another process" in error_line(lines)
        disk.interfere = failing_under(metadata, "sync")
        with pytest.raises((ConnectionClosed, AssertionError)):
            assert create_topic(connection, "refused") is ErrorCode.none
        until(lambda: node.failure is not None, what="the exit of the node")
        assert f"The metadata log dir {metadata} failed" in str(node.failure)


@pytest.mark.parametrize("operation", ["list_dir", "read_bytes", "open", "lock", "remove"])
def test_log_dir_that_cannot_be_read_at_startup_is_offline(tmp_path: Path, disk: TamperedDisk, operation: str) -> None:
    with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection:
        produce(connection, TOPIC, b"kept", partition=dirs.failing)
        produce(connection, TOPIC, b"here", partition=dirs.healthy)
    disk.interfere = failing_under(dirs.second, operation)
    with HostedNode(tmp_path, disk=disk, log_dirs=[dirs.first, dirs.second]) as node:
        with RawConnection(node.port) as connection:
            assert read_all(connection, dirs.healthy) == [b"here"]
            assert fetch(connection, TOPIC, partition=dirs.failing).error is ErrorCode.kafka_storage_error
            until(lambda: leaders(connection, TOPIC)[dirs.failing][1] == -1, what="the report of the offline log dir")
            # New partitions are placed in the online log dir.
            assert create_topic(connection, "later", partitions=2) is ErrorCode.none
            assert partitions_in(dirs.first, "later") == [0, 1]
        disk.interfere = lambda *_: None
    with (
        HostedNode(tmp_path, log_dirs=[dirs.first, dirs.second]) as restarted,
        RawConnection(restarted.port) as connection,
    ):
        until(lambda: leaders(connection, TOPIC)[dirs.failing][1] == 1, what="a leader")
        assert read_all(connection, dirs.failing) == [b"kept"]


def test_log_dir_that_fails_before_its_assignment_was_reported_goes_offline(
    tmp_path: Path, disk: TamperedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without_reports:
        without_reports.setattr(DirectoryAssignments, "report", lambda *_: None)
        with TwoDirs(tmp_path, disk) as dirs, dirs.connect() as connection:
            produce(connection, TOPIC, b"kept", partition=dirs.failing)
    disk.interfere = failing_under(dirs.second, "lock")
    with HostedNode(tmp_path, disk=disk, log_dirs=[dirs.first, dirs.second]) as node:
        with RawConnection(node.port) as connection:
            until(lambda: leaders(connection, TOPIC)[dirs.failing][1] == -1, what="the report of the offline log dir")
            assert leaders(connection, TOPIC)[dirs.healthy][1] == 1
        disk.interfere = lambda *_: None
    with (
        HostedNode(tmp_path, log_dirs=[dirs.first, dirs.second]) as restarted,
        RawConnection(restarted.port) as connection,
    ):
        until(lambda: leaders(connection, TOPIC)[dirs.failing][1] == 1, what="a leader")
        assert read_all(connection, dirs.failing) == [b"kept"]


def test_damaged_last_log_dir_prints_one_error_line_at_startup(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path).start()
    try:
        with RawConnection(node.port) as connection:
            assert create_topic(connection, TOPIC) is ErrorCode.none
            assert produce(connection, TOPIC, b"value").error is ErrorCode.none
        node.stop()
        damaged = node.log_dirs[0] / f"{TOPIC}-0" / "leader-epoch-checkpoint"
        damaged.write_bytes(b"\xff\xfe")
        code, lines = run_to_end(node)
        assert code == 2
        assert str(node.log_dirs[0]) in error_line(lines)
        assert damaged.name in error_line(lines)
    finally:
        node.kill()


def release_files(node: HostedNode) -> None:
    for log in node.logs():
        log.release_files()


def test_running_out_of_file_descriptors_takes_no_log_dir_offline(tmp_path: Path, disk: TamperedDisk) -> None:
    with TwoDirs(tmp_path, disk, flush_messages=1) as dirs, dirs.connect() as connection:
        assert produce(connection, TOPIC, b"before", partition=dirs.failing).offset == 0
        dirs.node.call(lambda: release_files(dirs.node))
        disk.interfere = failing_under(dirs.second, "open", code=errno.EMFILE)
        assert produce(connection, TOPIC, b"refused", partition=dirs.failing).error is ErrorCode.kafka_storage_error
        assert fetch(connection, TOPIC, partition=dirs.failing).error is ErrorCode.kafka_storage_error
        disk.interfere = lambda *_: None
        assert produce(connection, TOPIC, b"after", partition=dirs.failing).offset == 1
        assert read_all(connection, dirs.failing) == [b"before", b"after"]
    assert dirs.node.failure is None
