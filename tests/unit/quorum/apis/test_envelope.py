"""Forwarded requests. Error responses equal those of Apache Kafka 4.3.1 for the same bytes."""

import asyncio
import struct
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import ANONYMOUS, Principal
from odradek.wire.forwarding import read_forwarded_response, write_forwarded_request
from odradek.wire.principal import UnreadablePrincipal, read_principal, write_principal
from odradek.wire.schemas import Message, schema
from tests import raw_wire
from tests.unit.core.controller.cluster import Cluster
from tests.unit.quorum.fake_controller_node import AcceptingCommands, FakeControllerNode

ENVELOPE, CREATE_TOPICS, DESCRIBE_QUORUM, UNREGISTER = 58, 19, 55, 64
CREATE_DELEGATION_TOKEN = 38
LOCALHOST = b"\x7f\0\0\1"
CORRELATION_ID = 77


@pytest.fixture
def node() -> FakeControllerNode:
    return FakeControllerNode()


def inner(api_key: int, version: int, **fields: Any) -> bytes:
    messages = schema(api_key, version)
    request = raw_wire.build(messages.request_type, fields)
    return write_forwarded_request(messages, request, correlation_id=CORRELATION_ID, client_id="client")


def forward(
    node: FakeControllerNode, data: bytes, principal: bytes | None = write_principal(ANONYMOUS), host: bytes = LOCALHOST
) -> Any:
    return node.request(ENVELOPE, 0, request_data=data, request_principal=principal, client_host_address=host)


CREATE = inner(CREATE_TOPICS, 7, topics=[{"name": "orders", "num_partitions": 1}])


@pytest.mark.parametrize("version", range(2, 8))
def test_envelope_contains_the_response_of_the_inner_request(node: FakeControllerNode, version: int) -> None:
    node.controller.run = AcceptingCommands().run
    response = forward(node, inner(CREATE_TOPICS, version, topics=[{"name": "orders"}]))
    assert response.error_code is ErrorCode.none
    inner_response = read_forwarded_response(
        schema(CREATE_TOPICS, version), response.response_data, correlation_id=CORRELATION_ID
    )
    assert [(topic.name, topic.error_code) for topic in inner_response.topics] == [
        ("orders", ErrorCode.topic_already_exists)
    ]
    assert node.controller.commands == 1


def test_not_controller_is_the_error_of_the_envelope(node: FakeControllerNode) -> None:
    response = forward(node, CREATE)
    assert (response.error_code, response.response_data) == (ErrorCode.not_controller, None)


@pytest.mark.parametrize(
    ("code", "said"),
    [(ErrorCode.not_leader_or_follower, ErrorCode.not_controller), (ErrorCode.unknown_topic_or_partition, None)],
)
def test_not_leader_becomes_not_controller(node: FakeControllerNode, code: ErrorCode, said: ErrorCode | None) -> None:
    messages = schema(DESCRIBE_QUORUM, 2)
    topic = {"topic_name": "__cluster_metadata", "partitions": [{"error_code": code}]}
    node.quorum.response = raw_wire.build(messages.response_type, {"error_code": ErrorCode.none, "topics": [topic]})
    response = forward(node, inner(DESCRIBE_QUORUM, 2, topics=[]))
    assert response.error_code is (said or ErrorCode.none)
    assert node.quorum.requests == [(DESCRIBE_QUORUM, 2, "CONTROLLER")]


def header(api_key: int, version: int, client_id_size: int = 0) -> bytes:
    return struct.pack(">hhih", api_key, version, CORRELATION_ID, client_id_size)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (header(CREATE_TOPICS, 1) + CREATE[16:], ErrorCode.unsupported_version),
        (header(CREATE_TOPICS, 99) + CREATE[16:], ErrorCode.unsupported_version),
        (header(999, 0), ErrorCode.unsupported_version),
        (header(-1, 0), ErrorCode.unsupported_version),
        (b"\0\x13", ErrorCode.unsupported_version),
        (b"", ErrorCode.unsupported_version),
        (CREATE[:-4], ErrorCode.unsupported_version),
        (header(UNREGISTER, 0, 100) + b"\0", ErrorCode.unsupported_version),
        # An array of two billion topics.
        (header(CREATE_TOPICS, 7) + b"\0\xff\xff\xff\xff\x07", ErrorCode.unsupported_version),
        # Not for brokers to hand on, whatever the version and whether or not it can be read.
        (header(3, 12), ErrorCode.invalid_request),
        (header(3, 99), ErrorCode.invalid_request),
        (header(18, 0), ErrorCode.invalid_request),
        (header(52, 0), ErrorCode.invalid_request),
        (header(60, 0), ErrorCode.invalid_request),
        (header(63, 0), ErrorCode.invalid_request),
        (header(56, 3), ErrorCode.invalid_request),
        (header(73, 0), ErrorCode.invalid_request),
        (header(82, 0), ErrorCode.invalid_request),
        (header(ENVELOPE, 0) + b"\0" * 5, ErrorCode.invalid_request),
    ],
)
def test_invalid_inner_requests_are_rejected(node: FakeControllerNode, data: bytes, code: ErrorCode) -> None:
    response = forward(node, data)
    assert (response.error_code, response.response_data) == (code, None)
    assert not node.controller.commands and not node.quorum.requests


def test_trailing_bytes_are_ignored(node: FakeControllerNode) -> None:
    node.controller.run = AcceptingCommands().run
    assert forward(node, CREATE + b"xx").error_code is ErrorCode.none


@pytest.mark.parametrize("host", [b"", b"\1\2\3", bytes(17)])
def test_invalid_client_addresses_are_rejected(node: FakeControllerNode, host: bytes) -> None:
    assert forward(node, CREATE, host=host).error_code is ErrorCode.invalid_request
    # It is looked at before the request.
    assert forward(node, b"", host=host).error_code is ErrorCode.invalid_request


def test_ipv6_client_addresses_are_accepted(node: FakeControllerNode) -> None:
    node.controller.run = AcceptingCommands().run
    assert forward(node, CREATE, host=bytes(16)).error_code is ErrorCode.none


WRITTEN = b"\0\0\x05User\x0aANONYMOUS\0\0"
READABLE = {
    WRITTEN: ANONYMOUS,
    WRITTEN + b"xyz": ANONYMOUS,
    b"\0\0\x05Svcs\x02x\0\0": Principal("Svcs", "x"),
    b"\0\0\x01\x01\0\0": Principal("", ""),
    b"\0\0\x05User\x02x\2\0": Principal("User", "x", token_authenticated=True),
    b"\0\0\x05User\x03\xff\xfe\0\0": Principal("User", "\ufffd\ufffd"),
    # A tagged field from the future.
    b"\0\0\x05User\x02x\0\1\5\1y": Principal("User", "x"),
}


@pytest.mark.parametrize("data", READABLE)
def test_valid_principals_are_read(node: FakeControllerNode, data: bytes) -> None:
    assert read_principal(data) == READABLE[data]
    node.controller.run = AcceptingCommands().run
    assert forward(node, CREATE, principal=data).error_code is ErrorCode.none


def test_principal_round_trips() -> None:
    assert write_principal(ANONYMOUS) == WRITTEN
    for principal in (ANONYMOUS, Principal("User", "ä" * 200, token_authenticated=True)):
        assert read_principal(write_principal(principal)) == principal


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\0",
        b"\0\1" + WRITTEN[2:],
        b"\xff\xff" + WRITTEN[2:],
        *(WRITTEN[:size] for size in range(2, len(WRITTEN))),
        b"\0\0\x05User\0\0\0",
        b"\0\0\xff\xff\xff\xff\x0fUser\x02x\0\0",
        b"\0\0\x05User\x02x\0\xff\xff\xff\xff\x0f",
        b"\0\0\x05User\x02x\0\1\5\x64y",
    ],
)
def test_invalid_principals_are_rejected(node: FakeControllerNode, data: bytes | None) -> None:
    with pytest.raises(UnreadablePrincipal):
        read_principal(data or b"")
    assert forward(node, CREATE, principal=data).error_code is ErrorCode.principal_deserialization_failure
    # It is looked at before all else.
    assert forward(node, b"", data, b"").error_code is ErrorCode.principal_deserialization_failure


def test_large_requests_and_responses_are_processed_in_slices(node: FakeControllerNode) -> None:
    node.controller.run = AcceptingCommands().run
    topics = [{"name": f"topic-{number:06}"} for number in range(3000)]
    response = forward(node, inner(CREATE_TOPICS, 7, topics=topics))
    inner_response = read_forwarded_response(
        schema(CREATE_TOPICS, 7), response.response_data, correlation_id=CORRELATION_ID
    )
    assert len(inner_response.topics) == 3000
    assert node.slice_turns.runs == 2


def test_an_error_that_no_inner_response_reports_is_the_envelopes(node: FakeControllerNode) -> None:
    async def handle(api_key: int, version: int, request: Message, listener_name: str) -> Message:
        await asyncio.sleep(0)
        raise KafkaError(ErrorCode.request_timed_out)

    node.quorum.handle = handle  # type: ignore[method-assign]
    assert forward(node, inner(DESCRIBE_QUORUM, 2, topics=[])).error_code is ErrorCode.request_timed_out


@pytest.mark.parametrize(
    ("by_token", "expected"), [(False, ErrorCode.none), (True, ErrorCode.delegation_token_request_not_allowed)]
)
def test_only_the_client_decides_whether_tokens_may_be_managed(
    node: FakeControllerNode, by_token: bool, expected: ErrorCode
) -> None:
    """The connection of the broker, here without authentication, does not matter."""
    cluster = Cluster(delegation_token_secret_key="secret")
    node.controller.run = lambda command: cluster.take(command(cluster.controller))
    alice = Principal("User", "alice", token_authenticated=by_token)
    data = inner(CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime=-1)
    response = forward(node, data, principal=write_principal(alice))
    assert response.error_code is ErrorCode.none
    created = read_forwarded_response(
        schema(CREATE_DELEGATION_TOKEN, 3), response.response_data, correlation_id=CORRELATION_ID
    )
    assert (created.error_code, created.principal_name) == (expected, "alice")
