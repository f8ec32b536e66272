import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.client.connection import Connection
from odradek.client.errors import ConnectionFailed, NotSupportedByBroker
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import API_VERSIONS, CLOSE_CONNECTION, METADATA, NO_RESPONSE, ScriptedBroker


def request_metadata(connection: Connection, timeout_s: float = 5.0) -> Message:
    def build(chosen: Schema) -> Message:
        return chosen.new(
            "MetadataRequest",
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    return connection.request(METADATA, build, timeout_s=timeout_s)


@pytest.mark.parametrize("highest", [4, 8, 9, 12, 13])
def test_the_newest_common_version_is_used(highest: int) -> None:
    with ScriptedBroker({}, {METADATA: (0, highest)}) as broker:
        broker.handlers[METADATA] = broker.metadata({"orders": 2})
        connection = Connection(broker.address, client_id="test", timeout_s=5)
        response = request_metadata(connection)
        connection.close()
    assert [topic.name for topic in response.topics] == ["orders"]
    assert broker.requests[0].__version__ == highest


def test_api_versions_is_retried_with_version_zero() -> None:
    def handle(request: Message, chosen: Schema) -> Message | bytes:
        if chosen.version > 0:
            # Kafka responds in version 0 to an ApiVersions version that it does not support.
            return struct.pack(">hihhh", ErrorCode.unsupported_version, 1, API_VERSIONS, 0, 0)
        return struct.pack(">hihhh", 0, 1, METADATA, 0, 5)

    with ScriptedBroker({API_VERSIONS: handle}, {}) as broker:
        connection = Connection(broker.address, client_id="test", timeout_s=5)
        assert connection.schema(METADATA).version == 5
        connection.close()


def test_unsupported_apis_and_versions() -> None:
    with ScriptedBroker({}, {METADATA: (90, 99)}) as broker:
        connection = Connection(broker.address, client_id="test", timeout_s=5)
        with pytest.raises(NotSupportedByBroker, match="metadata"):
            connection.schema(METADATA)
        with pytest.raises(NotSupportedByBroker, match="fetch"):
            connection.schema(1)
        connection.close()


def test_a_closed_connection_is_reported() -> None:
    with ScriptedBroker({METADATA: lambda *_: CLOSE_CONNECTION}, {METADATA: (0, 12)}) as broker:
        connection = Connection(broker.address, client_id="test", timeout_s=5)
        with pytest.raises(ConnectionFailed, match="closed the connection"):
            request_metadata(connection)


def test_a_missing_response_times_out() -> None:
    with ScriptedBroker({METADATA: lambda *_: NO_RESPONSE}, {METADATA: (0, 12)}) as broker:
        connection = Connection(broker.address, client_id="test", timeout_s=5)
        with pytest.raises(ConnectionFailed, match="did not respond in time"):
            request_metadata(connection, timeout_s=0.05)


def test_a_truncated_response_is_rejected() -> None:
    with ScriptedBroker({METADATA: lambda *_: b"\0\0\0"}, {METADATA: (0, 12)}) as broker:
        connection = Connection(broker.address, client_id="test", timeout_s=5)
        with pytest.raises(ConnectionFailed, match="cannot be decoded"):
            request_metadata(connection)


@pytest.fixture
def speaker() -> Iterator[tuple[Address, list[bytes]]]:
    """A server that sends fixed bytes to every client."""
    said: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            with connected:
                connected.recv(4096)
                connected.sendall(said[0])

        threading.Thread(target=speak, daemon=True).start()
        yield Address(*listener.getsockname()), said


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x46\x00", "does not speak Kafka's protocol"),
        (struct.pack(">ii", -1, 1), "does not speak Kafka's protocol"),
        (struct.pack(">ii", 4, 77), "response to request 77"),
        (struct.pack(">ii", 100, 1) + b"\0", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_a_server_that_is_not_a_broker_is_rejected(
    speaker: tuple[Address, list[bytes]], said: bytes, reason: str
) -> None:
    address, script = speaker
    script.append(said)
    with pytest.raises(ConnectionFailed, match=reason):
        Connection(address, client_id="test", timeout_s=5)


def test_a_refused_connection_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionFailed, match="connection refused"):
        Connection(Address("127.0.0.1", port), client_id="test", timeout_s=5)


def test_an_unknown_host_is_reported() -> None:
    with pytest.raises(ConnectionFailed, match="unknown host name"):
        Connection(Address("no-such-host.invalid", 9092), client_id="test", timeout_s=5)
