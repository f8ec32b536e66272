"""How many connections a node takes, from whom, and for how long; what slow and silent clients cost it."""

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

# More than a busy machine stops for: nobody else is to be taken for silent.
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
    """Whether a request gets its answer; False when the node hangs up or says nothing."""
    connection.settimeout(patience_s)
    try:
        connection.sendall(encode_request(Api.API_VERSIONS, 0, 1, {}))
        return has_answered(connection)
    except (TimeoutError, ConnectionError):
        return False


def has_answered(connection: socket.socket) -> bool:
    """Takes a whole answer."""
    prefix = connection.recv(4, socket.MSG_WAITALL)
    return len(prefix) == 4 and len(connection.recv(size := struct.unpack(">i", prefix)[0], socket.MSG_WAITALL)) == size


def is_hung_up(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def change_limit(node: NodeProcess, name: str, value: str | None, resource: str = "") -> None:
    with RawConnection(node.port) as connection:
        code, message = alter_configs(connection, BROKER_RESOURCE, resource, {name: value})
        assert code is ErrorCode.none, message


def test_an_address_has_its_limit_and_others_theirs(node: OdradekProcess) -> None:
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(connect_from("127.0.0.5", node.port)) for _ in range(40)]
        assert all(map(is_served, many[:3] + many[-3:]))
        assert is_hung_up(stack.enter_context(connect_from("127.0.0.5", node.port)))
        assert is_served(stack.enter_context(connect_from("127.0.0.6", node.port)))
        few = [stack.enter_context(connect_from("127.0.0.9", node.port)) for _ in range(2)]
        assert all(map(is_served, few))
        assert is_hung_up(stack.enter_context(connect_from("127.0.0.9", node.port)))
        # A place that is given up can be taken.
        few[0].close()
        until(lambda: is_served(stack.enter_context(connect_from("127.0.0.9", node.port))), what="a free place")


def test_limits_of_addresses_change_at_run_time(node: OdradekProcess) -> None:
    change_limit(node, "max.connections.per.ip.overrides", "127.0.0.7:1")
    until(lambda: places(node, "127.0.0.7", 3) == 1, what="the changed override")
    change_limit(node, "max.connections.per.ip", "3", resource="1")
    until(lambda: places(node, "127.0.0.8", 5) == 3, what="the changed limit")
    change_limit(node, "max.connections.per.ip", None, resource="1")
    change_limit(node, "max.connections.per.ip.overrides", None)
    until(lambda: places(node, "127.0.0.9", 4) == 2, what="the limit of the file")


def places(node: NodeProcess, address: str, tries: int) -> int:
    """How many of so many connections from one address are taken."""
    with contextlib.ExitStack() as stack:
        return sum([is_served(stack.enter_context(connect_from(address, node.port))) for _ in range(tries)])


def test_at_max_connections_newcomers_wait(node: OdradekProcess) -> None:
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(RawConnection(node.port))
        others = [stack.enter_context(connect_from("127.0.0.5", node.port)) for _ in range(3)]
        assert all(map(is_served, others))
        assert alter_configs(admin, BROKER_RESOURCE, "1", {"max.connections": "4"})[0] is ErrorCode.none
        newcomer = stack.enter_context(connect_from("127.0.0.6", node.port))
        assert not is_served(newcomer, patience_s=0.3)
        assert admin.ask(Api.API_VERSIONS, 0).error_code is ErrorCode.none
        # Somebody leaves, and the request that was sent long ago is answered.
        others[0].close()
        newcomer.settimeout(PATIENCE_S)
        assert has_answered(newcomer)
        # With a lower limit the idlest have to go.
        assert alter_configs(admin, BROKER_RESOURCE, "1", {"max.connections": "2"})[0] is ErrorCode.none
        assert is_hung_up(others[1])
        assert is_hung_up(others[2])
        assert alter_configs(admin, BROKER_RESOURCE, "1", {"max.connections": None})[0] is ErrorCode.none


def test_silent_connections_are_closed_and_active_ones_not(node: OdradekProcess) -> None:
    began = time.monotonic()
    with connect_from("127.0.0.5", node.port) as silent, RawConnection(node.port) as active:
        silent.settimeout(0.2)
        while True:
            assert active.ask(Api.API_VERSIONS, 0).error_code is ErrorCode.none
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                if silent.recv(1) == b"":
                    break
                continue
            if time.monotonic() - began > 5 * IDLE_S:
                pytest.fail("a silent connection was kept")
        assert time.monotonic() - began > IDLE_S - 0.1


def test_two_thousand_idle_connections(plain_node: OdradekProcess) -> None:
    resident = plain_node.resident_bytes
    with contextlib.ExitStack() as stack:
        idle: list[socket.socket] = []
        for number in range(2000):
            idle.append(stack.enter_context(connect_from(f"127.0.1.{number % 250 + 1}", plain_node.port)))
            # No more at once than may wait to be accepted.
            if number % 40 == 0:
                assert is_served(idle[-1])
        with StallWatch(plain_node):
            time.sleep(0.5)
        assert all(map(is_served, idle[::100]))
        assert (plain_node.resident_bytes - resident) / len(idle) < 16 << 10


def test_the_limit_of_open_files_is_raised_to_what_is_allowed(tmp_path: Path) -> None:
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


def test_a_client_that_reads_nothing_costs_one_answer(plain_node: OdradekProcess) -> None:
    """It asks for 5 MB sixty times; the node prepares one answer, then waits for it to be read."""
    answer_bytes = 5 << 20
    with RawConnection(plain_node.port) as connection:
        assert create_topic(connection, "unread", configs={"max.message.bytes": str(answer_bytes)}) is ErrorCode.none
        for value in filled_values(8, 1 << 20):
            assert produce(connection, "unread", value).error is ErrorCode.none
        resident = plain_node.resident_bytes
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", plain_node.port))
            question = encode_request(Api.FETCH, 12, 7, fetch_fields("unread", 0, max_bytes=answer_bytes))
            deaf.sendall(question * 60)
            with StallWatch(plain_node):
                time.sleep(0.5)
            assert plain_node.resident_bytes - resident < 3 * answer_bytes
            # It was all there: once read, every answer comes, whole and in order.
            deaf.settimeout(10)
            with deaf.makefile("rb") as stream:
                for _ in range(60):
                    (size,) = struct.unpack(">i", stream.read(4))
                    answer = decode_response(Api.FETCH, 12, stream.read(size))
                    assert len(answer.responses[0].partitions[0].records) > answer_bytes // 2


def test_who_announces_much_and_sends_little_costs_little(plain_node: OdradekProcess) -> None:
    frame = encode_request(Api.API_VERSIONS, 0, 5, {})
    resident = plain_node.resident_bytes
    with contextlib.ExitStack() as stack:
        dawdlers = [stack.enter_context(connect_from("127.0.0.5", plain_node.port)) for _ in range(100)]
        for dawdler in dawdlers:
            dawdler.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            dawdler.sendall(struct.pack(">i", 100_000_000))
        slow = stack.enter_context(connect_from("127.0.0.6", plain_node.port))
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with StallWatch(plain_node):
            for position in range(len(frame)):
                slow.sendall(frame[position : position + 1])
                for dawdler in dawdlers:
                    dawdler.sendall(b"x")
        # However slowly it came, a whole request is answered.
        slow.settimeout(PATIENCE_S)
        assert has_answered(slow)
        assert plain_node.resident_bytes - resident < 8 << 20


def test_requests_without_acknowledgement_count_although_the_client_is_gone(plain_node: OdradekProcess) -> None:
    with RawConnection(plain_node.port) as connection:
        # Records of a compacted topic are looked at in a thread: the requests behind have to wait.
        assert create_topic(connection, "gone", configs={"cleanup.policy": "compact"}) is ErrorCode.none
        large = batch(*(TestRecord(b"v" * 1000, key=b"k") for _ in range(50)), timestamp=now_ms())
        with RawConnection(plain_node.port) as hasty:
            for number in range(10):
                hasty.send_bytes(encode_request(Api.PRODUCE, 9, number, produce_fields("gone", large, acks=0)))
        until(lambda: list_offset(connection, "gone", LATEST) == 500, what="all that was sent")


def test_a_failed_request_without_acknowledgement_ends_the_connection(plain_node: OdradekProcess) -> None:
    with RawConnection(plain_node.port) as connection:
        connection.send(Api.PRODUCE, 9, produce_fields("no-such-topic", batch(TestRecord()), acks=0))
        with pytest.raises(ConnectionClosed):
            connection.receive()
