"""Large fetch responses are read from their files while they are sent: slow clients, changing logs, failing disks."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.odradek_process import OdradekProcess
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response
from tests.wire.hosted_node import HostedNode
from tests.wire.plain_requests import (
    EARLIEST,
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
    until,
)
from tests.wire.tampered_disk import TamperedDisk, leave_alone

TOPIC = "streamed"
# More than the sockets of both sides take.
VALUES = filled_values(40, 500_000)
SLOW_CLIENTS = 200
NODE_MB_MAX = 200
# More than file.delete.delay.ms.
DELETE_DELAY_MS = 100_000
PROPERTIES = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "0"}


@pytest.fixture
def disk() -> TamperedDisk:
    return TamperedDisk()


@pytest.fixture
def node(tmp_path: Path, disk: TamperedDisk) -> Iterator[HostedNode]:
    with HostedNode(tmp_path, disk=disk, properties=PROPERTIES) as node:
        yield node
        disk.interfere = leave_alone


def fill(connection: RawConnection, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    assert create_topic(connection, TOPIC, configs=named) is ErrorCode.none
    for value in VALUES:
        assert produce(connection, TOPIC, value).error is ErrorCode.none


class SlowReader:
    """Has requested twenty megabytes and received the first four bytes of the response. Reads the rest on request."""

    def __init__(self, port: int, topic: str = TOPIC) -> None:
        self.connection = RawConnection(port, timeout_s=60)
        self.connection.send(Api.FETCH, 12, fetch_fields(topic, 0))
        self._size = int.from_bytes(self.connection.socket.recv(4, socket.MSG_WAITALL))

    def __enter__(self) -> "SlowReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def read_rest(self) -> list[bytes]:
        payload = self.connection._receive_exactly(self._size)
        return as_fetched(decode_response(Api.FETCH, 12, payload)).values


def test_slow_readers_get_everything_and_take_little_memory(tmp_path: Path) -> None:
    """200 clients that do not read, each with 20 MB to come, and one that reads."""
    node = OdradekProcess(tmp_path, properties={"max.connections.per.ip": "1000"}).start()
    try:
        with RawConnection(node.port) as connection, contextlib.ExitStack() as readers:
            fill(connection)
            slow = [readers.enter_context(SlowReader(node.port)) for _ in range(SLOW_CLIENTS)]
            assert fetch(connection, TOPIC).values == VALUES
            assert node.resident_bytes < NODE_MB_MAX << 20
            assert slow[0].read_rest() == VALUES
            assert slow[-1].read_rest() == VALUES
    finally:
        node.kill()


def test_next_request_waits_for_the_streamed_response(node: HostedNode) -> None:
    with RawConnection(node.port) as connection:
        fill(connection)
        fields = fetch_fields(TOPIC, 0)
        ids = [connection.send(Api.FETCH, 12, fields), connection.send(Api.API_VERSIONS, 0, {})]
        ids.append(connection.send(Api.FETCH, 12, fields))
        payloads = [connection.receive() for _ in ids]
        assert [int.from_bytes(payload[:4]) for payload in payloads] == ids
        for payload in (payloads[0], payloads[2]):
            assert as_fetched(decode_response(Api.FETCH, 12, payload)).values == VALUES


def test_broken_connection_in_the_middle_of_a_response_affects_no_other(node: HostedNode) -> None:
    with RawConnection(node.port) as connection:
        fill(connection)
        with SlowReader(node.port) as other:
            for _ in range(20):
                with SlowReader(node.port):
                    pass
            assert fetch(connection, TOPIC).values == VALUES
            assert other.read_rest() == VALUES


@pytest.mark.parametrize("how", ["retention", "DeleteRecords", "DeleteTopics"])
def test_records_deleted_while_they_are_sent_still_arrive(node: HostedNode, how: str) -> None:
    with RawConnection(node.port) as connection:
        fill(connection, segment_bytes="2000000", file_delete_delay_ms="600000")
        # It has all segments of its response open.
        with SlowReader(node.port) as reader:
            if how == "retention":
                assert alter_configs(connection, TOPIC_RESOURCE, TOPIC, {"retention.bytes": "1"})[0] is ErrorCode.none
            elif how == "DeleteRecords":
                wanted = {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": len(VALUES)}]}
                connection.request(Api.DELETE_RECORDS, 2, {"topics": [wanted], "timeout": 10_000})
            else:
                assert delete_topic(connection, TOPIC) is ErrorCode.none
            if how != "DeleteTopics":
                until(lambda: list_offset(connection, TOPIC, EARLIEST) > 3, what="a higher log start offset")
            assert reader.read_rest() == VALUES[:3]


def test_reader_of_a_file_that_was_removed_is_closed(node: HostedNode) -> None:
    """Otherwise a client that reads nothing would keep the space of deleted segments."""
    with RawConnection(node.port) as connection:
        fill(connection)
        with SlowReader(node.port) as reader:
            assert delete_topic(connection, TOPIC) is ErrorCode.none
            assert node.node._broker is not None
            log_dirs = node.node._broker.log_dirs

            def is_removed() -> bool:
                due_ms = now_ms() + DELETE_DELAY_MS
                assert node.call(lambda: log_dirs.in_every_dir(lambda one: one.remove_deleted(due_ms))) == []
                return not any(TOPIC in path.name for path in node.log_dirs[0].iterdir())

            until(is_removed, what="removal of the files")
            with pytest.raises(ConnectionClosed):
                reader.read_rest()
        assert fetch(connection, TOPIC).error is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("then", ["nothing", "other records"])
def test_truncation_of_records_being_sent_closes_the_connection(node: HostedNode, then: str) -> None:
    with RawConnection(node.port) as connection:
        fill(connection)
        (log,) = (log for log in node.logs() if log.topic_partition.topic == TOPIC)
        with SlowReader(node.port) as reader:
            # As a follower does that has diverged from its leader.
            node.call(lambda: log.truncate_to(30, 0))
            if then == "other records":
                assert produce(connection, TOPIC, b"other").error is ErrorCode.none
            with pytest.raises(ConnectionClosed):
                reader.read_rest()


def test_truncation_above_the_records_being_sent_does_not_disturb_them(node: HostedNode) -> None:
    with RawConnection(node.port) as connection:
        fill(connection)
        (log,) = (log for log in node.logs() if log.topic_partition.topic == TOPIC)
        with SlowReader(node.port) as reader:
            for _ in range(3):
                assert produce(connection, TOPIC, b"more").error is ErrorCode.none
            node.call(lambda: log.truncate_to(len(VALUES), 0))
            assert reader.read_rest() == VALUES


def test_disk_that_fails_in_the_middle_of_a_response_is_taken_offline(tmp_path: Path, disk: TamperedDisk) -> None:
    log_dirs = [tmp_path / "first", tmp_path / "second"]
    properties = {"metadata.log.dir": str(tmp_path / "metadata")}
    with (
        HostedNode(tmp_path, disk=disk, log_dirs=log_dirs, properties=properties) as node,
        RawConnection(node.port) as connection,
    ):
        fill(connection)
        (log,) = (log for log in node.logs() if log.topic_partition.topic == TOPIC)
        with SlowReader(node.port) as reader:
            disk.interfere = _fail_under(log.directory)
            with pytest.raises(ConnectionClosed):
                reader.read_rest()
            disk.interfere = leave_alone
        until(lambda: fetch(connection, TOPIC).error is ErrorCode.kafka_storage_error, what="an offline log dir")


def _fail_under(directory: str) -> Callable[[str, str], None]:
    def interfere(operation: str, path: str) -> None:
        if operation in ("read_into", "read_cached_into") and path.startswith(directory):
            raise OSError(5, os.strerror(5), path)

    return interfere


def test_stalled_reader_is_closed_after_connections_max_idle_ms(tmp_path: Path) -> None:
    with HostedNode(tmp_path, properties={"connections.max.idle.ms": "2000"}) as node:
        with RawConnection(node.port) as connection:
            fill(connection)
        with SlowReader(node.port) as reader:
            until(lambda: sum(node.node._listeners.connection_counts().values()) == 0, what="a closed connection")
            with pytest.raises(ConnectionClosed):
                reader.read_rest()
