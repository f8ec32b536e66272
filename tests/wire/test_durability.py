"""Records are synced as flush.messages and flush.ms say; slow disks and cold reads delay no other client."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from odradek.storage.log import log_dir_health
from tests.apis import Api
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection, decode_response, encode_request
from tests.record_batches import TestRecord, batch
from tests.wire.hosted_node import THREAD_NAME, HostedNode
from tests.wire.plain_requests import (
    TOPIC_RESOURCE,
    alter_configs,
    as_fetched,
    create_topic,
    fetch,
    fetch_fields,
    filled_values,
    now_ms,
    produce,
    produce_fields,
    until,
)
from tests.wire.stall_watch import StallWatch
from tests.wire.tampered_disk import TamperedDisk, leave_alone

TOPIC = "safe"


def log_file(partition: int) -> str:
    return f"{TOPIC}-{partition}/00000000000000000000.log"


LOG_FILE = log_file(0)


@pytest.fixture
def disk() -> TamperedDisk:
    return TamperedDisk()


@pytest.fixture
def node(tmp_path: Path, disk: TamperedDisk) -> Iterator[HostedNode]:
    with HostedNode(tmp_path, disk=disk) as node:
        yield node
        disk.interfere = leave_alone


@pytest.fixture(scope="module")
def large_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path_factory.mktemp("large")).start()
    yield node
    node.kill()


class Gate:
    """Blocks an operation on a log of the topic until it is opened; `reached` is set when an operation is blocked."""

    def __init__(self, operation: str, file: str = LOG_FILE) -> None:
        self._operation = operation
        self._file = file
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, operation: str, path: str) -> None:
        if operation == self._operation and path.endswith(self._file):
            self.reached.set()
            assert self.open.wait(60)


class ColdGate(Gate):
    """Its file is never in the page cache."""

    def __call__(self, operation: str, path: str) -> None:
        if operation == "read_cached_into" and path.endswith(self._file):
            raise BlockingIOError
        super().__call__(operation, path)


class Slow:
    """Delays every write to a log of the topic."""

    def __init__(self, seconds: float, file: str = LOG_FILE) -> None:
        self.seconds = seconds
        self._file = file
        self.threads: set[str] = set()

    def __call__(self, operation: str, path: str) -> None:
        if operation == "write" and path.endswith(self._file):
            self.threads.add(threading.current_thread().name)
            time.sleep(self.seconds)


# flush.messages and flush.ms


def test_flush_messages_1_acknowledges_and_serves_records_only_after_fsync(
    node: HostedNode, disk: TamperedDisk
) -> None:
    with RawConnection(node.port) as producer, RawConnection(node.port) as reader:
        assert create_topic(producer, TOPIC, configs={"flush.messages": "1"}) is ErrorCode.none
        gate = disk.interfere = Gate("sync")
        acknowledged = threading.Event()

        def send() -> int:
            offset = produce(producer, TOPIC, b"value").offset
            acknowledged.set()
            return offset

        with ThreadPoolExecutor(1) as threads:
            sent = threads.submit(send)
            assert gate.reached.wait(30)
            # Written, but neither acknowledged nor readable.
            assert not acknowledged.wait(0.2)
            found = fetch(reader, TOPIC)
            assert (found.high_watermark, found.records) == (0, b"")
            gate.open.set()
            assert sent.result(30) == 0
        assert fetch(reader, TOPIC).values == [b"value"]


def test_fsync_completes_a_long_poll(node: HostedNode) -> None:
    with RawConnection(node.port) as producer, RawConnection(node.port) as reader:
        assert create_topic(producer, TOPIC, configs={"flush.messages": "1"}) is ErrorCode.none
        reader.send(Api.FETCH, 12, fetch_fields(TOPIC, 0, max_wait_ms=20_000, min_bytes=300))
        began = time.monotonic()
        for _ in range(5):
            assert produce(producer, TOPIC, b"x" * 50).error is ErrorCode.none
        found = as_fetched(decode_response(Api.FETCH, 12, reader.receive()))
        assert len(found.records) >= 300
        assert time.monotonic() - began < 15


def test_concurrent_producers_share_one_fsync(node: HostedNode, disk: TamperedDisk) -> None:
    producers, each = 20, 5
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(node.port)) for _ in range(producers)]
        assert create_topic(connections[0], TOPIC, configs={"flush.messages": "1"}) is ErrorCode.none
        threads = stack.enter_context(ThreadPoolExecutor(producers))
        writes, syncs = disk.count("write", LOG_FILE), disk.count("sync", LOG_FILE)

        def all_have_written() -> bool:
            return (disk.count("write", LOG_FILE) - writes) % producers == 0

        for _ in range(each):
            gate = disk.interfere = Gate("sync")
            sent = [threads.submit(produce, connection, TOPIC, b"value") for connection in connections]
            assert gate.reached.wait(30)
            until(all_have_written, what="the others' writes during the first sync")
            gate.open.set()
            assert {one.result(30).error for one in sent} == {ErrorCode.none}
    # Each round needs one fsync for the first write, one for the others, and one more if the last write was still in
    # progress. One fsync per write would be a hundred.
    assert disk.count("sync", LOG_FILE) - syncs <= 3 * each


def test_partitions_of_one_request_are_synced_concurrently(node: HostedNode, disk: TamperedDisk) -> None:
    partitions, together = 8, threading.Barrier(4)
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC, partitions=partitions, configs={"flush.messages": "1"}) is ErrorCode.none

        def sync_together(operation: str, path: str) -> None:
            if operation == "sync" and path.endswith(".log") and TOPIC in path:
                together.wait(60)

        disk.interfere = sync_together
        records = batch(TestRecord(), timestamp=now_ms())
        data = [{"index": index, "records": records} for index in range(partitions)]
        topic_data = [{"name": TOPIC, "partition_data": data}]
        response = connection.request(Api.PRODUCE, 9, {"acks": -1, "timeout": 30_000, "topic_data": topic_data})
        assert {one.error_code for one in response.responses[0].partition_responses} == {ErrorCode.none}


@pytest.mark.parametrize("flush_messages", [1, 10])
def test_fsync_count_follows_flush_messages(node: HostedNode, disk: TamperedDisk, flush_messages: int) -> None:
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC, configs={"flush.messages": str(flush_messages)}) is ErrorCode.none
        syncs = disk.count("sync", LOG_FILE)
        for _ in range(30):
            produce(connection, TOPIC, b"value")
        assert disk.count("sync", LOG_FILE) - syncs == 30 // flush_messages


def test_flush_messages_can_change_at_run_time(node: HostedNode, disk: TamperedDisk) -> None:
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        produce(connection, TOPIC, b"value")
        assert disk.count("sync", LOG_FILE) == 0
        alter_configs(connection, TOPIC_RESOURCE, TOPIC, {"flush.messages": "1"})
        produce(connection, TOPIC, b"value")
        assert disk.count("sync", LOG_FILE) == 1
        alter_configs(connection, TOPIC_RESOURCE, TOPIC, {"flush.messages": None})
        produce(connection, TOPIC, b"value")
        assert disk.count("sync", LOG_FILE) == 1
        assert len(fetch(connection, TOPIC).values) == 3


def test_flush_ms_syncs_after_the_interval(tmp_path: Path, disk: TamperedDisk) -> None:
    properties = {"log.flush.scheduler.interval.ms": "50", "log.initial.task.delay.ms": "0"}
    with HostedNode(tmp_path, disk=disk, properties=properties) as node, RawConnection(node.port) as connection:
        # The interval starts when the log is created.
        began = time.monotonic()
        assert create_topic(connection, TOPIC, configs={"flush.ms": "300"}) is ErrorCode.none
        assert produce(connection, TOPIC, b"value").error is ErrorCode.none
        until(lambda: disk.count("sync", LOG_FILE) == 1, what="the sync")
        assert time.monotonic() - began > 0.25
        # Without new records there is no further fsync.
        time.sleep(0.5)
        assert disk.count("sync", LOG_FILE) == 1


# Slow disks


def test_appends_to_a_slow_disk_move_to_a_thread(node: HostedNode, disk: TamperedDisk) -> None:
    with RawConnection(node.port) as producer, RawConnection(node.port) as second, RawConnection(node.port) as other:
        assert create_topic(producer, TOPIC) is ErrorCode.none
        assert create_topic(producer, "another") is ErrorCode.none
        slow = disk.interfere = Slow(0.03)
        # The first slow write still runs on the event loop, so it is a short one.
        assert produce(producer, TOPIC, b"0").offset == 0
        slow.threads.clear()
        slow.seconds = 0.2

        def send(connection: RawConnection, count: int) -> list[int]:
            return [produce(connection, TOPIC, b"%d" % number).offset for number in range(count)]

        with StallWatch(node), ThreadPoolExecutor(2) as threads:
            running = [threads.submit(send, connection, 3) for connection in (producer, second)]
            offsets = [one.result() for one in running]
        assert all(THREAD_NAME not in name for name in slow.threads)
        # Each connection's records are in order, none missing, none duplicated.
        assert all(rising == sorted(rising) for rising in offsets)
        assert sorted(offsets[0] + offsets[1]) == list(range(1, 7))
        assert len(fetch(other, TOPIC).values) == 7


def test_pipelined_requests_keep_their_order_on_a_slow_disk(node: HostedNode, disk: TamperedDisk) -> None:
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        slow = disk.interfere = Slow(0.03)
        produce(connection, TOPIC, b"first")
        expected = [b"%d" % number for number in range(20)]
        for number, value in enumerate(expected):
            records = batch(TestRecord(value), timestamp=now_ms())
            connection.send_bytes(encode_request(Api.PRODUCE, 9, number, produce_fields(TOPIC, records)))
            slow.seconds = 0.0 if number % 3 else 0.025
        for _ in expected:
            connection.receive()
        assert fetch(connection, TOPIC).values == [b"first", *expected]


def test_appends_return_to_the_event_loop_when_the_disk_is_fast_again(
    node: HostedNode, disk: TamperedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not a minute.
    monkeypatch.setattr(log_dir_health, "FAST_SECONDS_MIN", 1.0)
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        slow = disk.interfere = Slow(0.03)
        produce(connection, TOPIC, b"slow")
        slow.seconds = 0.0
        slow.threads.clear()
        # Several fast writes in a row are needed, and on a busy machine some are slow.
        deadline = time.monotonic() + 120
        while THREAD_NAME not in slow.threads:
            assert time.monotonic() < deadline, "the disk is fast again, but writes still use a thread"
            produce(connection, TOPIC, b"quick")


def test_slow_disk_does_not_delay_the_other_disk(tmp_path: Path, disk: TamperedDisk) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    node = HostedNode(tmp_path, disk=disk, log_dirs=dirs)
    with node, RawConnection(node.port) as connection, RawConnection(node.port) as other:
        assert create_topic(connection, TOPIC, partitions=2) is ErrorCode.none
        (on_two,) = [number for number in range(2) if (dirs[1] / f"{TOPIC}-{number}").exists()]
        disk.interfere = Slow(0.03, log_file(on_two))
        produce(connection, TOPIC, b"value", partition=on_two)
        gate = disk.interfere = Gate("write", log_file(on_two))
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(produce, connection, TOPIC, b"value", partition=on_two)
            assert gate.reached.wait(30)
            # During one write to the slow disk, the other disk takes many.
            for _ in range(21):
                assert produce(other, TOPIC, b"value", partition=1 - on_two).error is ErrorCode.none
            assert not running.done()
            gate.open.set()
            assert running.result(30).error is ErrorCode.none
        disk.interfere = leave_alone


def test_slow_fsync_does_not_stall_the_event_loop(node: HostedNode, disk: TamperedDisk) -> None:
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC, configs={"flush.messages": "1"}) is ErrorCode.none

        def slow(operation: str, path: str) -> None:
            if operation == "sync" and path.endswith(LOG_FILE):
                time.sleep(0.4)

        disk.interfere = slow
        with StallWatch(node):
            assert produce(connection, TOPIC, b"value").error is ErrorCode.none


def test_shutdown_waits_for_writes_on_a_slow_disk(tmp_path: Path, disk: TamperedDisk) -> None:
    events: list[str] = []
    pause_s = 0.03
    begun = threading.Event()

    def slow(operation: str, path: str) -> None:
        if operation in ("write", "sync") and path.endswith(LOG_FILE):
            if operation == "write":
                begun.set()
                time.sleep(pause_s)
            events.append(operation)

    with HostedNode(tmp_path, disk=disk) as node, RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        disk.interfere = slow
        produce(connection, TOPIC, b"first")
        pause_s = 0.5
        begun.clear()
        connection.send(Api.PRODUCE, 9, _fields(b"second"))
        assert begun.wait(30)
    # No write happens after the log starts to close.
    assert events[:2] == ["write", "write"]
    assert set(events[2:]) == {"sync"}
    with HostedNode(tmp_path) as again, RawConnection(again.port) as connection:
        assert produce(connection, TOPIC, b"third").offset == 2
        assert fetch(connection, TOPIC).values == [b"first", b"second", b"third"]


def _fields(value: bytes) -> dict[str, object]:
    return produce_fields(TOPIC, batch(TestRecord(value), timestamp=now_ms()))


# Cold files


def drop_from_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_cold_reads_run_in_a_thread(node: HostedNode, disk: TamperedDisk) -> None:
    readers: dict[str, set[str]] = {"read_into": set(), "read_cached_into": set()}

    def note(operation: str, path: str) -> None:
        if operation in readers and path.endswith(LOG_FILE):
            readers[operation].add(threading.current_thread().name)

    values = filled_values(40, 100_000)
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        for value in values:
            produce(connection, TOPIC, value)
        disk.interfere = note
        assert fetch(connection, TOPIC).values == values
        assert (readers["read_into"], readers["read_cached_into"]) == (set(), {THREAD_NAME})
        drop_from_cache(node.log_dirs[0] / LOG_FILE)
        for name in readers.values():
            name.clear()
        # A thread makes the first read, which warms the page cache again.
        assert fetch(connection, TOPIC).values == values
        assert readers["read_into"]
        assert THREAD_NAME not in readers["read_into"]


def test_slow_cold_read_does_not_stall_the_event_loop(node: HostedNode, disk: TamperedDisk) -> None:
    def slow(operation: str, path: str) -> None:
        if operation in ("read", "read_into") and path.endswith(LOG_FILE):
            time.sleep(0.5)

    values = filled_values(10, 100_000)
    with RawConnection(node.port) as connection, RawConnection(node.port) as other:
        assert create_topic(connection, TOPIC) is ErrorCode.none
        for value in values:
            produce(connection, TOPIC, value)
        drop_from_cache(node.log_dirs[0] / LOG_FILE)
        disk.interfere = slow
        with StallWatch(node), ThreadPoolExecutor(1) as threads:
            running = threads.submit(fetch, connection, TOPIC)
            while not running.done():
                assert produce(other, TOPIC, b"meanwhile").error is ErrorCode.none
        assert running.result().values[: len(values)] == values


def test_fsync_does_not_wait_for_cold_reads(node: HostedNode, disk: TamperedDisk) -> None:
    """More consumers than threads read from a disk that does not respond."""
    readers = 2 * node.config.background_threads
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(RawConnection(node.port))
        assert create_topic(connection, TOPIC) is ErrorCode.none
        assert create_topic(connection, "durable", configs={"flush.messages": "1"}) is ErrorCode.none
        for value in filled_values(10, 100_000):
            produce(connection, TOPIC, value)
        gate = disk.interfere = ColdGate("read_into")
        threads = stack.enter_context(ThreadPoolExecutor(readers))
        stack.callback(gate.open.set)
        consumers = [stack.enter_context(RawConnection(node.port)) for _ in range(readers)]
        running = [threads.submit(fetch, consumer, TOPIC) for consumer in consumers]
        assert gate.reached.wait(30)
        for _ in range(5):
            assert produce(connection, "durable", b"value").error is ErrorCode.none
        assert not any(one.done() for one in running)


@pytest.mark.parametrize("partitions", [1, 50])
def test_large_fetch_from_memory_does_not_stall_the_event_loop(large_node: OdradekProcess, partitions: int) -> None:
    """50 MB in one response, from one partition or split over many."""
    topic = f"large-{partitions}"
    with RawConnection(large_node.port) as connection:
        assert create_topic(connection, topic, partitions=partitions) is ErrorCode.none
        for number, value in enumerate(filled_values(50, 1_000_000)):
            assert produce(connection, topic, value, partition=number % partitions).error is ErrorCode.none
        wanted = [
            {"partition": number, "fetch_offset": 0, "partition_max_bytes": 50 << 20} for number in range(partitions)
        ]
        fields = fetch_fields(topic, 0) | {"topics": [{"topic": topic, "partitions": wanted}], "max_bytes": 52 << 20}
        with StallWatch(large_node):
            for _ in range(3):
                response = connection.request(Api.FETCH, 12, fields)
        sizes = [len(one.records or b"") for one in response.responses[0].partitions]
        assert sum(sizes) > 50_000_000


# After kill -9


def test_node_serves_at_once_after_kill_nine(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path, properties={"broker.session.timeout.ms": "60000"}).start()
    try:
        values = filled_values(200, 10_000)
        with RawConnection(node.port) as connection:
            assert create_topic(connection, TOPIC) is ErrorCode.none
            for value in values:
                assert produce(connection, TOPIC, value).error is ErrorCode.none
        node.kill()
        node.start()
        # A third of a second on an idle machine; waiting for the old session to expire would take a minute.
        assert node.started_in_s < 30
        with RawConnection(node.port) as connection:
            assert fetch(connection, TOPIC).values == values
            assert produce(connection, TOPIC, b"next").offset == len(values)
    finally:
        node.kill()
