"""Housekeeping of a node as clients and operators see it: segments, topics, config changes, one-line errors."""

import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.node_process import CLUSTER_ID, NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection, decode_response
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import (
    BROKER_RESOURCE,
    EARLIEST,
    LATEST,
    TOPIC_RESOURCE,
    alter_configs,
    as_fetched,
    create_topic,
    delete_topic,
    fetch,
    fetch_fields,
    filled_values,
    list_offset,
    now_ms,
    produce,
    produce_batch,
    until,
)
from tests.wire.stall_watch import StallWatch

PROPERTIES = {
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
    # Long enough to see the files that are marked for deletion.
    "log.segment.delete.delay.ms": "10000",
    "num.partitions": "3",
}
SEGMENT_BYTES = str(1 << 20)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path_factory.mktemp("maintenance"), properties=PROPERTIES).start()
    yield node
    node.kill()


@pytest.fixture
def connection(node: OdradekProcess) -> Iterator[RawConnection]:
    with RawConnection(node.port) as connection:
        yield connection


def segments(node: NodeProcess, topic: str, suffix: str = ".log") -> list[int]:
    """The base offsets of the segments on disk."""
    return sorted(int(path.name[:20]) for path in (node.log_dirs[0] / f"{topic}-0").glob(f"*{suffix}"))


def fill(connection: RawConnection, topic: str, count: int, size: int = 100_000) -> None:
    for value in filled_values(count, size):
        assert produce(connection, topic, value).error is ErrorCode.none


# Segments


def test_segments_roll_by_size(node: OdradekProcess, connection: RawConnection) -> None:
    assert create_topic(connection, "by-size", configs={"segment.bytes": SEGMENT_BYTES}) is ErrorCode.none
    fill(connection, "by-size", 25)
    assert segments(node, "by-size") == [0, 10, 20]


def test_segments_roll_by_time(node: OdradekProcess, connection: RawConnection) -> None:
    assert create_topic(connection, "by-time", configs={"segment.ms": "60000"}) is ErrorCode.none
    start_ms = now_ms() - 200_000
    for number in range(4):
        # Rolling by time uses the timestamps of the records.
        records = batch(TestRecord(), timestamp=start_ms + number * 40_000)
        assert produce_batch(connection, "by-time", records).error is ErrorCode.none
    assert segments(node, "by-time") == [0, 2]


def test_retention_by_size_marks_segments_and_removes_them_later(
    node: OdradekProcess, connection: RawConnection
) -> None:
    topic = "kept-by-size"
    configs = {"segment.bytes": SEGMENT_BYTES, "retention.bytes": str(2 << 20)}
    assert create_topic(connection, topic, configs=configs) is ErrorCode.none
    fill(connection, topic, 45)
    until(lambda: list_offset(connection, topic, EARLIEST) == 20, what="the deletion of old segments")
    # The log start offset advances before the files are marked.
    until(lambda: segments(node, topic) == [20, 30, 40], what="the deletion marks")
    assert fetch(connection, topic, 5).error is ErrorCode.offset_out_of_range
    assert fetch(connection, topic, 20, max_bytes=200_000).values[0].startswith(b"20-")
    # Marked at once, removed after log.segment.delete.delay.ms.
    assert segments(node, topic, ".log.deleted") == [0, 10]
    until(lambda: segments(node, topic, ".deleted") == [], 60, what="the removal of the files")


def test_retention_by_time_deletes_even_the_active_segment(node: OdradekProcess, connection: RawConnection) -> None:
    topic = "kept-by-time"
    configs = {"segment.bytes": SEGMENT_BYTES, "retention.ms": "60000", "file.delete.delay.ms": "0"}
    assert create_topic(connection, topic, configs=configs) is ErrorCode.none
    old = now_ms() - 120_000
    for value in filled_values(12, 100_000):
        assert produce_batch(connection, topic, batch(TestRecord(value), timestamp=old)).error is ErrorCode.none
    # The active segment is deleted, too, when all its records are too old.
    until(lambda: list_offset(connection, topic, EARLIEST) == 12, what="the deletion of old records")
    assert list_offset(connection, topic, LATEST) == 12
    until(lambda: segments(node, topic) == [12] and not segments(node, topic, ".deleted"), what="the removal")
    assert produce(connection, topic, b"new").offset == 12
    assert fetch(connection, topic, 12).values == [b"new"]


def test_delete_records_advances_the_log_start_offset(node: OdradekProcess, connection: RawConnection) -> None:
    topic = "trimmed"
    assert create_topic(connection, topic, configs={"segment.bytes": SEGMENT_BYTES}) is ErrorCode.none
    fill(connection, topic, 25)

    def delete_before(offset: int) -> tuple[ErrorCode, int]:
        wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
        response = connection.request(Api.DELETE_RECORDS, 2, {"topics": wanted, "timeout": 5000})
        result = response.topics[0].partitions[0]
        return ErrorCode(result.error_code), result.low_watermark

    assert delete_before(13) == (ErrorCode.none, 13)
    assert list_offset(connection, topic, EARLIEST) == 13
    assert fetch(connection, topic, 12).error is ErrorCode.offset_out_of_range
    assert fetch(connection, topic, 13, max_bytes=150_000).values[0].startswith(b"13-")
    until(lambda: segments(node, topic) == [10, 20], what="the deletion of the segment below")
    assert delete_before(99)[0] is ErrorCode.offset_out_of_range
    assert delete_before(-1) == (ErrorCode.none, 25)
    assert produce(connection, topic, b"next").offset == 25


def test_deleted_records_stay_deleted_after_kill_nine(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path, properties={"log.flush.start.offset.checkpoint.interval.ms": "100"}).start()
    try:
        with RawConnection(node.port) as connection:
            create_topic(connection, "trimmed")
            fill(connection, "trimmed", 10, 100)
            wanted = [{"name": "trimmed", "partitions": [{"partition_index": 0, "offset": 4}]}]
            connection.request(Api.DELETE_RECORDS, 2, {"topics": wanted, "timeout": 5000})
            checkpoint = node.log_dirs[0] / "log-start-offset-checkpoint"
            until(
                lambda: checkpoint.exists() and "trimmed 0 4" in checkpoint.read_text(),
                what="the new log start offset on disk",
            )
        node.kill()
        node.start()
        with RawConnection(node.port) as connection:
            assert list_offset(connection, "trimmed", EARLIEST) == 4
            assert len(fetch(connection, "trimmed", 4).values) == 6
    finally:
        node.kill()


# Config changes at run time


def test_topic_config_changes_apply_at_run_time(node: OdradekProcess, connection: RawConnection) -> None:
    topic = "changing"
    assert create_topic(connection, topic) is ErrorCode.none
    fill(connection, topic, 12)
    assert segments(node, topic) == [0]
    assert alter_configs(connection, TOPIC_RESOURCE, topic, {"segment.bytes": SEGMENT_BYTES})[0] is ErrorCode.none
    fill(connection, topic, 1)
    assert segments(node, topic) == [0, 12]
    assert alter_configs(connection, TOPIC_RESOURCE, topic, {"max.message.bytes": "1000"})[0] is ErrorCode.none
    assert produce(connection, topic, bytes(2000)).error is ErrorCode.message_too_large
    assert alter_configs(connection, TOPIC_RESOURCE, topic, {"max.message.bytes": None})[0] is ErrorCode.none
    assert produce(connection, topic, bytes(2000)).error is ErrorCode.none
    assert alter_configs(connection, TOPIC_RESOURCE, topic, {"retention.bytes": "1"})[0] is ErrorCode.none
    # Retention deletes whole segments and never falls below the limit.
    until(lambda: list_offset(connection, topic, EARLIEST) == 12, what="retention by the new limit")


def test_broker_config_changes_apply_at_run_time(node: OdradekProcess, connection: RawConnection) -> None:
    assert create_topic(connection, "defaulted") is ErrorCode.none
    assert create_topic(connection, "own", configs={"max.message.bytes": "5000"}) is ErrorCode.none
    for resource in ("", "1"):
        assert alter_configs(connection, BROKER_RESOURCE, resource, {"message.max.bytes": "1000"})[0] is ErrorCode.none
        assert produce(connection, "defaulted", bytes(2000)).error is ErrorCode.message_too_large
        # A topic config overrides the broker config.
        assert produce(connection, "own", bytes(2000)).error is ErrorCode.none
        assert alter_configs(connection, BROKER_RESOURCE, resource, {"message.max.bytes": None})[0] is ErrorCode.none
        assert produce(connection, "defaulted", bytes(2000)).error is ErrorCode.none
    assert alter_configs(connection, BROKER_RESOURCE, "1", {"log.dirs": "/elsewhere"})[0] is not ErrorCode.none


def test_changed_configs_survive_kill_nine(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path).start()
    try:
        with RawConnection(node.port) as connection:
            create_topic(connection, "orders")
            alter_configs(connection, BROKER_RESOURCE, "", {"message.max.bytes": "1000"})
            alter_configs(connection, BROKER_RESOURCE, "1", {"max.connections.per.ip": "3"})
        node.kill()
        node.start()
        with RawConnection(node.port) as connection:
            assert produce(connection, "orders", bytes(2000)).error is ErrorCode.message_too_large
            others = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(3)]
            # Usually the last one; an earlier one if the node still counts a connection of `node.start()`.
            closed, _, _ = select.select(others, [], [], 30)
            assert closed
            assert closed[0].recv(1) == b""
            for other in others:
                other.close()
    finally:
        node.kill()


# Topics that are deleted and created again


def test_deleting_a_topic_ends_its_long_polls(node: OdradekProcess, connection: RawConnection) -> None:
    with RawConnection(node.port, timeout_s=30) as by_name, RawConnection(node.port, timeout_s=30) as by_id:
        assert create_topic(connection, "fleeting") is ErrorCode.none
        produce(connection, "fleeting", b"old")
        by_name.send(Api.FETCH, 12, fetch_fields("fleeting", 1, max_wait_ms=60_000))
        by_id.send(Api.FETCH, 16, _fetch_by_id(connection, "fleeting", 1))
        time.sleep(0.1)
        assert delete_topic(connection, "fleeting") is ErrorCode.none
        found = as_fetched(decode_response(Api.FETCH, 12, by_name.receive()))
        assert found.error is ErrorCode.unknown_topic_or_partition
        found = as_fetched(decode_response(Api.FETCH, 16, by_id.receive()))
        assert found.error is ErrorCode.unknown_topic_id
    assert produce(connection, "fleeting", b"gone").error is ErrorCode.unknown_topic_or_partition


def test_recreated_topic_has_a_new_id_and_none_of_the_old_records(
    node: OdradekProcess, connection: RawConnection
) -> None:
    with RawConnection(node.port, timeout_s=30) as reader:
        for generation in range(3):
            assert create_topic(connection, "phoenix") is ErrorCode.none
            assert list_offset(connection, "phoenix", LATEST) == 0
            value = b"generation %d" % generation
            reader.send(Api.FETCH, 12, fetch_fields("phoenix", 0, max_wait_ms=60_000))
            assert produce(connection, "phoenix", value).offset == 0
            assert as_fetched(decode_response(Api.FETCH, 12, reader.receive())).values == [value]
            # A fetch with the old topic ID gets no records of the new topic.
            by_old_id = _fetch_by_id(connection, "phoenix", 0)
            assert delete_topic(connection, "phoenix") is ErrorCode.none
            assert as_fetched(connection.request(Api.FETCH, 16, by_old_id)).error is ErrorCode.unknown_topic_id
    leftovers = [path.name for path in node.log_dirs[0].glob("phoenix-*")]
    assert len(leftovers) == 3
    assert all(name.endswith("-delete") for name in leftovers)
    until(lambda: not list(node.log_dirs[0].glob("phoenix-*")), 60, what="the removal of the directories")


def _fetch_by_id(connection: RawConnection, topic: str, offset: int) -> dict[str, object]:
    fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    (described,) = connection.request(Api.METADATA, 12, fields).topics
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {
        "max_wait": 60_000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic_id": described.topic_id, "partitions": [wanted]}],
    }


def test_deleting_a_topic_under_load(node: OdradekProcess) -> None:
    """Produce requests in flight during the deletion get a success or an error response."""
    stop = threading.Event()

    def write(number: int) -> set[ErrorCode]:
        seen = set()
        with RawConnection(node.port) as connection:
            while not stop.is_set():
                seen.add(produce(connection, "hunted", b"x" * 1000).error)
        del number
        return seen

    with ThreadPoolExecutor(3) as threads, RawConnection(node.port) as admin:
        writers = [threads.submit(write, number) for number in range(3)]
        for _ in range(10):
            assert create_topic(admin, "hunted") is ErrorCode.none
            time.sleep(0.05)
            assert delete_topic(admin, "hunted") is ErrorCode.none
        stop.set()
        seen = set().union(*(writer.result() for writer in writers))
    assert ErrorCode.none in seen
    assert seen <= {
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
    }
    with RawConnection(node.port) as connection:
        assert create_topic(connection, "afterwards") is ErrorCode.none
        assert produce(connection, "afterwards", b"value").offset == 0


def test_metadata_requests_create_topics_when_allowed(node: OdradekProcess, connection: RawConnection) -> None:
    def describe(name: str, *, create: bool) -> tuple[ErrorCode, int]:
        fields = {"topics": [{"name": name}], "allow_auto_topic_creation": create}
        (described,) = connection.request(Api.METADATA, 9, fields).topics
        return ErrorCode(described.error_code), len(described.partitions)

    assert describe("on-demand", create=False) == (ErrorCode.unknown_topic_or_partition, 0)
    describe("on-demand", create=True)
    until(lambda: describe("on-demand", create=False) == (ErrorCode.none, 3), what="the topic")
    assert produce(connection, "on-demand", b"value", partition=2).offset == 0
    # Produce and Fetch requests do not create topics.
    assert produce(connection, "never", b"value").error is ErrorCode.unknown_topic_or_partition
    assert fetch(connection, "never").error is ErrorCode.unknown_topic_or_partition


def test_topic_of_a_thousand_partitions_does_not_stall(node: OdradekProcess, connection: RawConnection) -> None:
    with StallWatch(node):
        assert create_topic(connection, "wide", partitions=1000) is ErrorCode.none
        assert produce(connection, "wide", b"value", partition=999).offset == 0
        assert delete_topic(connection, "wide") is ErrorCode.none


# Refused starts


def run_to_end(node: OdradekProcess) -> str:
    """Runs a node that refuses to start; checks its exit code and returns its only error line."""
    node.output_file.unlink(missing_ok=True)
    node.spawn()
    assert node.process is not None
    try:
        assert node.process.wait(20) == 2
    except subprocess.TimeoutExpired:
        node.kill()
        pytest.fail("the node started")
    lines = node.output_file.read_text().splitlines()
    assert not any("Traceback" in line for line in lines), "\n".join(lines)
    (line,) = (line for line in lines if line.startswith("error: "))
    return line


def test_second_process_on_the_same_log_dir_is_refused(node: OdradekProcess, connection: RawConnection) -> None:
    second = OdradekProcess(node.directory / "second", log_dirs=node.log_dirs)
    assert f"{node.log_dirs[0]} is locked by another process" in run_to_end(second)
    # The first process is not affected.
    assert connection.request(Api.API_VERSIONS, 0).error_code is ErrorCode.none


def write_meta(log_dir: Path, *, cluster: str = CLUSTER_ID, node: int = 1) -> None:
    log_dir.mkdir(parents=True)
    (log_dir / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id={node}\n")


def test_log_dir_of_another_cluster_is_refused(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write_meta(ours)
    write_meta(theirs, cluster="their-cluster")
    line = run_to_end(OdradekProcess(tmp_path / "node", log_dirs=[ours, theirs]))
    assert f"{theirs} belongs to cluster their-cluster, not to {CLUSTER_ID}" in line
    assert not (theirs / "__cluster_metadata-0").exists()


def test_log_dir_of_another_node_is_refused(tmp_path: Path) -> None:
    write_meta(tmp_path / "data", node=7)
    assert "belongs to node 7, but this is node 1" in run_to_end(OdradekProcess(tmp_path))


def test_unformatted_log_dir_is_refused(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path)
    node.format_command = lambda: ["true"]  # type: ignore[method-assign]
    line = run_to_end(node)
    assert "meta.properties" in line
    assert "odradek format" in line


def test_port_in_use_is_reported_and_keeps_the_clean_shutdown_marker(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path).start()
    node.stop()
    marker = node.log_dirs[0] / ".kafka_cleanshutdown"
    assert marker.exists()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", node.port))
        taken.listen()
        line = run_to_end(node)
    assert f"Cannot bind 127.0.0.1:{node.port}" in line
    assert "choose another port" in line
    # The clean shutdown still counts: the next start needs no log recovery.
    assert marker.exists()


# The advertised address


@pytest.mark.parametrize(
    ("advertised", "warning"),
    [
        ("no-such-host.invalid:9092", "does not resolve"),
        ("127.0.0.1:1", "cannot be reached from this machine"),
    ],
)
def test_unreachable_advertised_listener_logs_a_warning(tmp_path: Path, advertised: str, warning: str) -> None:
    node = OdradekProcess(tmp_path, properties={"advertised.listeners": f"PLAINTEXT://{advertised}"}).start()
    try:
        until(lambda: warning in node.output_file.read_text(), what="the warning")
        lines = [line for line in node.output_file.read_text().splitlines() if warning in line]
        assert len(lines) == 1
        assert "WARNING" in lines[0]
        assert advertised in lines[0]
        assert "advertised.listeners" in lines[0]
    finally:
        node.kill()


def test_loopback_advertised_listener_logs_a_warning_for_a_remote_client(tmp_path: Path) -> None:
    address = _address_of_this_machine()
    node = OdradekProcess(tmp_path)
    node.properties = {
        "listeners": f"PLAINTEXT://0.0.0.0:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://localhost:{node.port}",
    }
    node.start()
    try:
        for _ in range(3):
            with socket.create_connection((address, node.port), timeout=30, source_address=(address, 0)) as client:
                client.sendall(struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0))
                assert client.recv(4)
        warning = f"the client at {address} would connect to its own machine"
        until(lambda: warning in node.output_file.read_text(), what="the warning")
        assert node.output_file.read_text().count(warning) == 1
        assert "the client at 127.0.0.1" not in node.output_file.read_text()
    finally:
        node.kill()


def _address_of_this_machine() -> str:
    """An address that is not loopback, found without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = str(probe.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address
