"""Connection limits per node and per address, idle connections, and slow clients."""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response, encode_request
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import (
    BROKER_RESOURCE,
    LATEST,
    alter_configs,
    create_topic,
    fetch_fields,
    filled_values,
    list_offset,
    now_ms,
    produce,
    produce_fields,
    until,
)
from tests.wire.stall_watch import StallWatch

# Longer than a busy machine stalls, so that no active client counts as idle.
IDLE_S = 4
PATIENCE_S = 20.0
PROPERTIES = {
    "max.connections.per.ip": "40",
    "max.connections.per.ip.overrides": "127.0.0.9:2,no-such-host.invalid:7",
    "connections.max.idle.ms": str(IDLE_S * 1000),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path_factory.mktemp("limits"), properties=PROPERTIES).start()
    yield node
    node.kill()


@pytest.fixture(scope="module")
def plain_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path_factory.mktemp("plain")).start()
    yield node
    node.kill()


def connect_from(address: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(address, 0))


def is_served(connection: socket.socket, patience_s: float = PATIENCE_S) -> bool:
    """Whether a request gets a response before the node closes the connection or the time is over."""
    connection.settimeout(patience_s)
    try:
        connection.sendall(encode_request(Api.API_VERSIONS, 0, 1, {}))
        return has_response(connection)
    except (TimeoutError, ConnectionError):
        return False


def has_response(connection: socket.socket) -> bool:
    """Reads one whole response."""
    prefix = connection.recv(4, socket.MSG_WAITALL)
    return len(prefix) == 4 and len(connection.recv(size := struct.unpack(">i", prefix)[0], socket.MSG_WAITALL)) == size


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def change_limit(node: NodeProcess, name: str, value: str | None, resource: str = "") -> None:
    with RawConnection(node.port) as connection:
        code, message = alter_configs(connection, BROKER_RESOURCE, resource, {name: value})
        assert code is ErrorCode.none, message


def test_connection_limits_apply_per_address(node: OdradekProcess) -> None:
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(connect_from("127.0.0.5", node.port)) for _ in range(40)]
        assert all(map(is_served, many[:3] + many[-3:]))
        assert is_closed(stack.enter_context(connect_from("127.0.0.5", node.port)))
        assert is_served(stack.enter_context(connect_from("127.0.0.6", node.port)))
        few = [stack.enter_context(connect_from("127.0.0.9", node.port)) for _ in range(2)]
        assert all(map(is_served, few))
        assert is_closed(stack.enter_context(connect_from("127.0.0.9", node.port)))
        # Closing a connection frees a slot.
        few[0].close()
        until(lambda: is_served(stack.enter_context(connect_from("127.0.0.9", node.port))), what="a free slot")


def test_connection_limits_per_address_change_at_run_time(node: OdradekProcess) -> None:
    change_limit(node, "max.connections.per.ip.overrides", "127.0.0.7:1")
    until(lambda: count_accepted(node, "127.0.0.7", 3) == 1, what="the changed override")
    change_limit(node, "max.connections.per.ip", "3", resource="1")
    until(lambda: count_accepted(node, "127.0.0.8", 5) == 3, what="the changed limit")
    change_limit(node, "max.connections.per.ip", None, resource="1")
    change_limit(node, "max.connections.per.ip.overrides", None)
    until(lambda: count_accepted(node, "127.0.0.9", 4) == 2, what="the limit of the properties file")


def count_accepted(node: NodeProcess, address: str, tries: int) -> int:
    """How many of `tries` connections from one address are accepted."""
    with contextlib.ExitStack() as stack:
        return sum([is_served(stack.enter_context(connect_from(address, node.port))) for _ in range(tries)])


def test_new_connections_wait_at_max_connections(node: OdradekProcess) -> None:
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(RawConnection(node.port))
        others = [stack.enter_context(connect_from("127.0.0.5", node.port)) for _ in range(3)]
        assert all(map(is_served, others))
        assert alter_configs(admin, BROKER_RESOURCE, "1", {"max.connections": "4"})[0] is ErrorCode.none
        newcomer = stack.enter_context(connect_from("127.0.0.6", node.port))
        assert not is_served(newcomer, patience_s=0.3)
        assert admin.request(Api.API_VERSIONS, 0).error_code is ErrorCode.none
        # A connection closes, and the pending request gets its response.
        others[0].close()
        newcomer.settimeout(PATIENCE_S)
        assert has_response(newcomer)
        # With a lower limit the most idle connections are closed.
        assert alter_configs(admin, BROKER_RESOURCE, "1", {"max.connections": "2"})[0] is ErrorCode.none
        assert is_closed(others[1])
        assert is_closed(others[2])
        assert alter_configs(admin, BROKER_RESOURCE, "1", {"max.connections": None})[0] is ErrorCode.none


def test_idle_connections_are_closed_and_active_ones_kept(node: OdradekProcess) -> None:
    began = time.monotonic()
    with connect_from("127.0.0.5", node.port) as idle, RawConnection(node.port) as active:
        idle.settimeout(0.2)
        while True:
            assert active.request(Api.API_VERSIONS, 0).error_code is ErrorCode.none
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                if idle.recv(1) == b"":
                    break
                continue
            if time.monotonic() - began > 5 * IDLE_S:
                pytest.fail("an idle connection was kept")
        assert time.monotonic() - began > IDLE_S - 0.1


def test_two_thousand_idle_connections_take_little_memory(plain_node: OdradekProcess) -> None:
    resident = plain_node.resident_bytes
    with contextlib.ExitStack() as stack:
        idle: list[socket.socket] = []
        for number in range(2000):
            idle.append(stack.enter_context(connect_from(f"127.0.1.{number % 250 + 1}", plain_node.port)))
            # Stay below the backlog of the listening socket.
            if number % 40 == 0:
                assert is_served(idle[-1])
        with StallWatch(plain_node):
            time.sleep(0.5)
        assert all(map(is_served, idle[::100]))
        assert (plain_node.resident_bytes - resident) / len(idle) < 16 << 10


def test_open_file_limit_is_raised_to_the_hard_limit(tmp_path: Path) -> None:
    node = OdradekProcess(tmp_path)
    limited = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh", *node.start_command()]
    node.start_command = lambda: limited  # type: ignore[method-assign]
    node.start()
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                connections = [stack.enter_context(connect_from("127.0.0.5", node.port)) for _ in range(40)]
                assert is_served(connections[-1])
    finally:
        node.kill()


def test_client_that_does_not_read_costs_one_response_in_memory(plain_node: OdradekProcess) -> None:
    """The client requests 5 MB sixty times; the node prepares one response, then waits until it is read."""
    response_bytes = 5 << 20
    with RawConnection(plain_node.port) as connection:
        assert create_topic(connection, "unread", configs={"max.message.bytes": str(response_bytes)}) is ErrorCode.none
        for value in filled_values(8, 1 << 20):
            assert produce(connection, "unread", value).error is ErrorCode.none
        resident = plain_node.resident_bytes
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", plain_node.port))
            request = encode_request(Api.FETCH, 12, 7, fetch_fields("unread", 0, max_bytes=response_bytes))
            client.sendall(request * 60)
            with StallWatch(plain_node):
                time.sleep(0.5)
            assert plain_node.resident_bytes - resident < 3 * response_bytes
            # Once the client reads, it gets every response, complete and in order.
            client.settimeout(10)
            with client.makefile("rb") as stream:
                for _ in range(60):
                    (size,) = struct.unpack(">i", stream.read(4))
                    response = decode_response(Api.FETCH, 12, stream.read(size))
                    assert len(response.responses[0].partitions[0].records) > response_bytes // 2


def test_slow_senders_of_large_requests_take_little_memory(plain_node: OdradekProcess) -> None:
    frame = encode_request(Api.API_VERSIONS, 0, 5, {})
    resident = plain_node.resident_bytes
    with contextlib.ExitStack() as stack:
        senders = [stack.enter_context(connect_from("127.0.0.5", plain_node.port)) for _ in range(100)]
        for sender in senders:
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sender.sendall(struct.pack(">i", 100_000_000))
        slow = stack.enter_context(connect_from("127.0.0.6", plain_node.port))
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with StallWatch(plain_node):
            for position in range(len(frame)):
                slow.sendall(frame[position : position + 1])
                for sender in senders:
                    sender.sendall(b"x")
        # A complete request gets its response, however slowly it arrived.
        slow.settimeout(PATIENCE_S)
        assert has_response(slow)
        assert plain_node.resident_bytes - resident < 8 << 20


def test_acks_0_requests_are_stored_after_the_client_disconnects(plain_node: OdradekProcess) -> None:
    with RawConnection(plain_node.port) as connection:
        # Records of a compacted topic are validated in a thread, so later requests have to wait.
        assert create_topic(connection, "gone", configs={"cleanup.policy": "compact"}) is ErrorCode.none
        large = batch(*(TestRecord(b"v" * 1000, key=b"k") for _ in range(50)), timestamp=now_ms())
        with RawConnection(plain_node.port) as hasty:
            for number in range(10):
                hasty.send_bytes(encode_request(Api.PRODUCE, 9, number, produce_fields("gone", large, acks=0)))
        until(lambda: list_offset(connection, "gone", LATEST) == 500, what="all sent records")


def test_failed_acks_0_request_closes_the_connection(plain_node: OdradekProcess) -> None:
    with RawConnection(plain_node.port) as connection:
        connection.send(Api.PRODUCE, 9, produce_fields("no-such-topic", batch(TestRecord()), acks=0))
        with pytest.raises(ConnectionClosed):
            connection.receive()
