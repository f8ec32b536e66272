"""The controller listener of a running node, queried as other nodes do; Odradek and Apache Kafka behave the same."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.principal import ANONYMOUS, Principal
from odradek.server.peer import Disconnected, Peer
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.forwarding import read_forwarded_response, write_forwarded_request
from odradek.wire.principal import write_principal
from odradek.wire.schemas import Message, Schema, schema
from tests import raw_wire
from tests.apis import Api
from tests.node_process import NodeProcess

ENVELOPE, BROKER_HEARTBEAT, METADATA = 58, 63, 3
LOCALHOST = bytes((127, 0, 0, 1))


def build_message(fields: dict[str, Any]) -> Callable[[Schema], Message]:
    return lambda messages: raw_wire.build(messages.request_type, fields)


def request(port: int, api_key: int, fields: dict[str, Any]) -> Any:
    async def main() -> Any:
        peer = Peer("127.0.0.1", port, client_id="test")
        try:
            return await peer.request(api_key, build_message(fields), timeout_seconds=20)
        finally:
            peer.close()

    return asyncio.run(main())


def forward(port: int, api_key: int, version: int, fields: dict[str, Any], **envelope: Any) -> Any:
    chosen = schema(api_key, version)
    data = write_forwarded_request(chosen, build_message(fields)(chosen), correlation_id=7, client_id="client")
    sealed = {
        "request_data": data,
        "request_principal": write_principal(ANONYMOUS),
        "client_host_address": LOCALHOST,
        **envelope,
    }
    response = request(port, ENVELOPE, sealed)
    if response.error_code is not ErrorCode.none:
        return response.error_code
    return read_forwarded_response(chosen, response.response_data, correlation_id=7)


def test_controller_advertises_a_subset_of_kafkas_api_versions(broker: NodeProcess) -> None:
    async def main() -> Any:
        peer = Peer("127.0.0.1", broker.controller_port, client_id="test")
        await peer.connect()
        peer.close()
        return peer.served

    served = asyncio.run(main())
    ours = {api.key: (api.low, api.high) for api in CONTROLLER_APIS.values()}
    assert {key: served.get(key) for key in ours} == ours
    assert broker.name == "kafka" or served.keys() == ours.keys()


def test_describe_cluster_returns_the_controllers(broker: NodeProcess) -> None:
    response = request(broker.controller_port, Api.DESCRIBE_CLUSTER, {"endpoint_type": 2})
    assert (response.error_code, response.controller_id) == (ErrorCode.none, 1)
    (controller,) = response.brokers
    assert (controller.broker_id, controller.host, controller.port) == (1, "127.0.0.1", broker.controller_port)


def test_envelope_creates_a_topic(broker: NodeProcess, topic: str) -> None:
    fields = {"topics": [{"name": topic, "num_partitions": 2, "replication_factor": 1}], "timeout": 5000}
    for principal in (ANONYMOUS, Principal("User", "alice")):
        response = forward(
            broker.controller_port, Api.CREATE_TOPICS, 7, fields, request_principal=write_principal(principal)
        )
        (created,) = response.topics
        expected = ErrorCode.none if principal is ANONYMOUS else ErrorCode.topic_already_exists
        assert created.error_code is expected


@pytest.mark.parametrize(
    ("api_key", "version", "envelope", "code"),
    [
        (METADATA, 12, {}, ErrorCode.invalid_request),
        (BROKER_HEARTBEAT, 1, {}, ErrorCode.invalid_request),
        (Api.CREATE_TOPICS, 7, {"client_host_address": b"\1"}, ErrorCode.invalid_request),
        (Api.CREATE_TOPICS, 7, {"request_principal": b"\0"}, ErrorCode.principal_deserialization_failure),
        (Api.CREATE_TOPICS, 7, {"request_data": b"\0\x13\0\x63"}, ErrorCode.unsupported_version),
    ],
)
def test_invalid_envelopes_are_rejected(
    broker: NodeProcess, api_key: int, version: int, envelope: dict[str, Any], code: ErrorCode
) -> None:
    assert forward(broker.controller_port, api_key, version, {}, **envelope) is code


def test_heartbeat_with_a_stale_broker_epoch_is_rejected(broker: NodeProcess) -> None:
    stale = request(broker.controller_port, BROKER_HEARTBEAT, {"broker_id": 1, "broker_epoch": 0})
    assert stale.error_code is ErrorCode.stale_broker_epoch
    unknown = request(broker.controller_port, BROKER_HEARTBEAT, {"broker_id": 99, "broker_epoch": 0})
    assert unknown.error_code in (ErrorCode.broker_id_not_registered, ErrorCode.stale_broker_epoch)


def test_controller_listener_closes_connections_of_clients(broker: NodeProcess) -> None:
    """A client that sends no ApiVersions request first, and mistakes the controller for a broker."""
    with raw_wire.RawConnection(broker.controller_port) as connection, pytest.raises(raw_wire.ConnectionClosed):
        connection.request(METADATA, 12, {"topics": None})


def test_broker_listener_rejects_envelopes(broker: NodeProcess) -> None:
    async def main() -> None:
        peer = Peer("127.0.0.1", broker.port, client_id="test")
        await peer.connect()
        assert ENVELOPE not in peer.served
        assert peer._link is not None
        peer._link.session.served = {**peer.served, ENVELOPE: (0, 0)}
        try:
            fields = {"request_data": b"", "client_host_address": LOCALHOST}
            with pytest.raises(Disconnected):
                await peer.request(ENVELOPE, build_message(fields), timeout_seconds=20)
        finally:
            peer.close()

    asyncio.run(main())
