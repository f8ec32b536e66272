"""Limits on the rate of new connections."""

import math
import socket
import time
from collections.abc import Iterator

import pytest

from tests.apis import Api
from tests.kafka.apache_kafka import REFERENCE
from tests.node_process import NodeProcess
from tests.raw_wire import RawConnection, encode_request
from tests.wire.plain_requests import (
    BROKER_RESOURCE,
    alter_configs,
)
from tests.wire.quota_node import running_quota_node, set_quota


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=REFERENCE)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    yield from running_quota_node(request, tmp_path_factory)


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.port) as connection:
        yield connection


def connect_repeatedly(port: int, count: int, address: str) -> list[float]:
    """Connects one after the other; the times until a response, or infinity where the node closed the connection."""
    times = []
    for _ in range(count):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(address, 0)) as client:
            client.sendall(encode_request(Api.METADATA, 4, 1, {"topics": []}, "client"))
            try:
                responded = client.recv(4)
            except ConnectionResetError:
                responded = b""
            times.append(time.monotonic() - began if responded else math.inf)
    return times


def test_connections_above_the_rate_of_their_address_are_closed_after_a_delay(
    node: NodeProcess, connection: RawConnection
) -> None:
    set_quota(connection, "connection_creation_rate", 2, ip="127.0.0.7")
    began = time.monotonic()
    are_closed = [math.isinf(one) for one in connect_repeatedly(node.port, 6, "127.0.0.7")]
    assert are_closed[:3] == [False, False, True]
    # The closed connection does not count, so there is room again after the delay.
    assert False in are_closed[3:]
    assert time.monotonic() - began > 0.45
    assert not any(map(math.isinf, connect_repeatedly(node.port, 10, "127.0.0.8")))
    set_quota(connection, "connection_creation_rate", None, ip="127.0.0.7")
    assert not any(map(math.isinf, connect_repeatedly(node.port, 10, "127.0.0.7")))


def test_connections_above_the_rate_of_the_broker_are_delayed(node: NodeProcess, connection: RawConnection) -> None:
    name = "max.connection.creation.rate"
    alter_configs(connection, BROKER_RESOURCE, "", {name: "5"})
    try:
        time.sleep(0.1)
        began = time.monotonic()
        times = connect_repeatedly(node.port, 10, "127.0.0.9")
        assert not any(map(math.isinf, times))
        assert 0.5 < time.monotonic() - began < 5
        # A connection that exists is not delayed.
        began = time.monotonic()
        connection.request(Api.METADATA, 4, {"topics": []})
        assert time.monotonic() - began < 0.5
    finally:
        alter_configs(connection, BROKER_RESOURCE, "", {name: None})
