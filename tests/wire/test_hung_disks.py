"""A disk that is slow or hangs does not stop the event loop: heartbeats, other log dirs and consensus continue."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.hanging_disk_node import HUNG_S, STALLED_S, SUSPECT_S, HangingDiskProcess
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response
from tests.record_batches import TestRecord, batch
from tests.wire.hosted_node import THREAD_NAME, HostedNode
from tests.wire.plain_requests import (
    TOPIC_RESOURCE,
    alter_configs,
    as_fetched,
    create_topic,
    delete_topic,
    fetch,
    fetch_fields,
    leaders,
    list_offset,
    now_ms,
    produce,
    produce_fields,
    until,
)
from tests.wire.stall_watch import StallWatch
from tests.wire.tampered_disk import TamperedDisk
from tests.wire.test_disk_faults import error_line, partitions_in

TOPIC = "spread"
SMALL_SEGMENTS = {"internal.segment.bytes": "2000", "index.interval.bytes": "100"}
# Contents of files that are open and in the page cache, and the size of an open file.
NEVER_WAIT = frozenset({"read_cached", "read_cached_into"})
"""The kernel does not wait for the disk in these."""
FAST = NEVER_WAIT | {"write"}
"""Those that the event loop may use where the node cannot do without the log dir."""


class LoopCalls:
    """Notes the calls of the Disk port that run on the event loop."""

    def __init__(self, *directories: Path, allowed: frozenset[str]) -> None:
        self._directories = tuple(map(str, directories))
        self._allowed = allowed
        self.found: set[tuple[str, str]] = set()

    def __call__(self, operation: str, path: str) -> None:
        on_loop = threading.current_thread().name == THREAD_NAME
        if on_loop and operation not in self._allowed and path.startswith(self._directories):
            self.found.add((operation, path))


def use_everything(connection: RawConnection, topic: str, partition: int) -> None:
    configs = SMALL_SEGMENTS | {"retention.ms": "-1"}
    assert alter_configs(connection, TOPIC_RESOURCE, topic, configs)[0] is ErrorCode.none
    for number in range(60):
        assert produce(connection, topic, b"v" * 100, partition=partition).offset == number
    assert fetch(connection, topic, 0, partition=partition, max_bytes=1 << 20).values
    assert fetch(connection, topic, 59, partition=partition).values == [b"v" * 100]
    assert list_offset(connection, topic, now_ms() - 3_600_000, partition=partition) == 0
    connection.request(Api.DESCRIBE_LOG_DIRS, 1, {"topics": None})
    removal = {"partition_index": partition, "offset": 30}
    fields = {"topics": [{"name": topic, "partitions": [removal]}], "timeout": 30_000}
    connection.request(Api.DELETE_RECORDS, 1, fields)


def test_the_event_loop_never_waits_for_a_log_dir_that_the_node_can_do_without(tmp_path: Path) -> None:
    disk = TamperedDisk()
    dirs = [tmp_path / "first", tmp_path / "second"]
    with HostedNode(tmp_path, disk=disk, log_dirs=dirs) as node, RawConnection(node.port) as connection:
        disk.interfere = calls = LoopCalls(dirs[1], allowed=NEVER_WAIT)
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
        (partition,) = partitions_in(dirs[1])
        use_everything(connection, TOPIC, partition)
        assert delete_topic(connection, TOPIC) is ErrorCode.none
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
        assert calls.found == set()


def test_the_event_loop_opens_and_creates_no_file(tmp_path: Path) -> None:
    """Also where the node ends with its log dir: such a call may take as long as the disk is busy."""
    disk = TamperedDisk()
    properties = {"internal.metadata.log.segment.bytes": "2000"}
    with (
        HostedNode(tmp_path, disk=disk, properties=properties) as node,
        RawConnection(node.port) as connection,
    ):
        disk.interfere = calls = LoopCalls(node.log_dirs[0], allowed=FAST)
        assert create_topic(connection, TOPIC) is ErrorCode.none
        use_everything(connection, TOPIC, 0)
        for number in range(30):
            # Rolls the metadata log.
            assert create_topic(connection, f"more-{number}") is ErrorCode.none
        assert delete_topic(connection, TOPIC) is ErrorCode.none
        assert calls.found == set()
        assert len(list((node.log_dirs[0] / "__cluster_metadata-0").glob("*.log"))) > 2


SLOW_S = 0.05
STALL_MS_MAX = 20


def test_rolls_on_a_slow_disk_do_not_stall_the_loop(tmp_path: Path) -> None:
    """Every call that creates, opens, resizes or syncs a file takes 50 ms."""
    disk = TamperedDisk()
    stalled_s = 0.0

    def be_slow(operation: str, path: str) -> None:
        nonlocal stalled_s
        if operation in FAST:
            return
        began = time.monotonic()
        time.sleep(SLOW_S)
        if threading.current_thread().name == THREAD_NAME:
            stalled_s += time.monotonic() - began

    with HostedNode(tmp_path, disk=disk) as node, RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC, configs=SMALL_SEGMENTS) is ErrorCode.none
        disk.interfere = be_slow
        record = batch(TestRecord(b"v" * 900))
        for _ in range(10):
            connection.send(Api.PRODUCE, 9, produce_fields(TOPIC, record))
        for number in range(10):
            (response,) = decode_response(Api.PRODUCE, 9, connection.receive()).responses[0].partition_responses
            assert (response.error_code, response.base_offset) == (ErrorCode.none, number)
        disk.interfere = lambda *_: None
        assert len(list((node.log_dirs[0] / f"{TOPIC}-0").glob("*.log"))) == 5
    assert stalled_s * 1000 < STALL_MS_MAX


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HangingDiskProcess]:
    node = HangingDiskProcess(tmp_path, log_dirs=[tmp_path / "first", tmp_path / "second"])
    yield node
    node.kill()


def pid(node: HangingDiskProcess) -> int:
    assert node.process is not None
    return node.process.pid


def test_a_hung_log_dir_leaves_the_others_and_consensus_alive(node: HangingDiskProcess) -> None:
    node.start()
    first, second = node.log_dirs
    with RawConnection(node.port) as connection, RawConnection(node.port) as waiting, RawConnection(node.port) as mixed:
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
        (healthy,), (hung,) = partitions_in(first), partitions_in(second)
        for partition in (healthy, hung):
            assert produce(connection, TOPIC, b"before", partition=partition).offset == 0
        with StallWatch(node):
            node.hang(second)
            began = time.monotonic()
            waiting.socket.settimeout(60)
            waiting.send(Api.PRODUCE, 9, produce_fields(TOPIC, batch(TestRecord(b"lost")), partition=hung))
            # Consensus, heartbeats and the other log dir, before and after the verdict.
            for number in range(1, 40):
                assert produce(connection, TOPIC, b"v", partition=healthy).offset == number
                assert fetch(connection, TOPIC, number, partition=healthy).values == [b"v"]
                assert create_topic(connection, f"later-{number}", partitions=1) in (
                    ErrorCode.none,
                    ErrorCode.request_timed_out,
                )
                time.sleep(0.2)
            (refused,) = decode_response(Api.PRODUCE, 9, waiting.receive()).responses[0].partition_responses
            assert refused.error_code in (ErrorCode.kafka_storage_error, ErrorCode.request_timed_out)
            assert time.monotonic() - began < 60
        mixed.socket.settimeout(30)
        both = fetch_fields(TOPIC, 0, partition=hung, max_wait_ms=500)
        mixed.send(Api.FETCH, 12, both)
        assert as_fetched(decode_response(Api.FETCH, 12, mixed.receive())).error is ErrorCode.kafka_storage_error
        until(lambda: leaders(connection, TOPIC)[hung][1] == -1, what="the report of the offline log dir")
        assert leaders(connection, TOPIC)[healthy] == (ErrorCode.none, 1)
        assert produce(connection, TOPIC, b"v", partition=hung).error is ErrorCode.kafka_storage_error
        assert create_topic(connection, "last") is ErrorCode.none
        assert partitions_in(first, "last") == [0]
    # Threads that never return keep no process.
    assert node.process is not None
    node.process.terminate()
    assert node.process.wait(30) == 0


def end_of(node: HangingDiskProcess) -> str:
    """Returns the error line of a node that ends by itself."""
    assert node.process is not None
    try:
        assert node.process.wait(60) == 1
    except subprocess.TimeoutExpired:
        pytest.fail("the node keeps running")
    return error_line(node.output_file.read_text().splitlines())


def test_the_node_ends_if_its_metadata_log_hangs_in_a_thread(node: HangingDiskProcess) -> None:
    node.start()
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        node.hang(node.log_dirs[0] / "__cluster_metadata-0" / "quorum")
        node.hang_file.write_text(str(node.log_dirs[0]))
        connection.socket.settimeout(60)
        with contextlib.suppress(ConnectionClosed, TimeoutError, OSError):
            create_topic(connection, "refused")
    assert f"The metadata log dir {node.log_dirs[0]} failed: The disk does not respond." in end_of(node)


def test_the_node_ends_if_a_write_of_its_event_loop_hangs(node: HangingDiskProcess) -> None:
    node.start()
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
        (essential,) = partitions_in(node.log_dirs[0])
        # The first append opens the files, in a thread.
        for number in range(2):
            assert produce(connection, TOPIC, b"v", partition=essential).offset == number
        node.hang(node.log_dirs[0] / f"{TOPIC}-{essential}")
        connection.send(Api.PRODUCE, 9, produce_fields(TOPIC, batch(TestRecord(b"lost")), partition=essential))
        line = end_of(node)
    assert f"The metadata log dir {node.log_dirs[0]} failed: The disk does not respond." in line
    assert SUSPECT_S + STALLED_S < HUNG_S + SUSPECT_S


def test_a_node_stops_although_a_disk_hangs(node: HangingDiskProcess) -> None:
    """Nothing else needs the disk before the logs are closed."""
    node.start()
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
        (partition,) = partitions_in(node.log_dirs[1])
        assert produce(connection, TOPIC, b"v", partition=partition).offset == 0
    node.hang(node.log_dirs[1])
    assert node.process is not None
    node.process.terminate()
    assert node.process.wait(40) == 0
