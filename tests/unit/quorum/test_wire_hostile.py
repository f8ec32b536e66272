"""Invalid values in messages are rejected or harmless, and never raise another error."""

import random
import struct
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC_ID
from odradek.core.raft.messages import NO_NODE, FetchRequest, FetchResponse, LeaderNaming, VoteResponse
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum import wire
from odradek.quorum.wire.endpoints import ENDPOINTS_MAX
from odradek.records.batch import CorruptBatch, compute_crc, parse_header
from odradek.records.builder import build_batch
from odradek.records.compression import Compression
from odradek.records.control import KRaftVersion, build_control_batch
from odradek.records.record import Record
from odradek.wire.apis import CONSENSUS_APIS, CONTROLLER_APIS, ApiKey
from odradek.wire.schemas import Message, Schema, SerialError, schema
from tests.kafka.quorum_wire import recording
from tests.raw_wire import build

FINE = {"error_code": ErrorCode.none}
ONE = {"name": "controller", "host": "one.example", "port": 9093}


def read(api_key: int, version: int, fields: dict[str, Any]) -> Any:
    messages = schema(api_key, version)
    data = messages.write(build(messages.request_type, fields))
    return wire.read_request(api_key, messages.read_request(data, 0)[0], messages)


def refusal(api_key: int, version: int, fields: dict[str, Any]) -> Message:
    with pytest.raises(wire.RefusedRequest) as refused:
        read(api_key, version, fields)
    messages = schema(api_key, version)
    return messages.read_response(messages.write(refused.value.response), 0)[0]


# Requests


def test_fetch_without_cluster_and_replica_is_read() -> None:
    topics = [{"topic_id": METADATA_TOPIC_ID, "partitions": [{}]}]
    for version in range(13, 19):
        request = read(ApiKey.FETCH, version, {"topics": topics, "max_wait": -(1 << 31), "max_bytes": -1})
        assert isinstance(request, FetchRequest)
        assert request.cluster_id is None
        assert request.replica == ReplicaKey(NO_NODE, None)
        assert (request.current_leader_epoch, request.last_fetched_epoch) == (-1, -1)
        assert (request.max_wait_ms, request.max_bytes) == (-(1 << 31), -1)


def test_negative_numbers_reach_the_replica() -> None:
    partition = {
        "partition_index": 0,
        "replica_epoch": -5,
        "replica_id": -7,
        "last_offset": -9,
        "last_offset_epoch": -3,
    }
    for version in (0, 1, 2):
        topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
        request = read(ApiKey.VOTE, version, {"cluster_id": "", "topics": topics})
        assert (request.replica_epoch, request.replica.node_id, request.last_offset) == (-5, -7, -9)
        assert request.cluster_id == ""


@pytest.mark.parametrize("topics", [(), ({"name": "__cluster_metadata", "partitions": ()},)], ids=("none", "empty"))
def test_snapshot_request_without_topics_is_rejected(topics: Any) -> None:
    for version in (0, 1):
        response = refusal(ApiKey.FETCH_SNAPSHOT, version, {"topics": topics})
        assert (response.error_code, response.topics) == (ErrorCode.invalid_request, ())


def test_snapshot_request_for_another_topic_is_rejected() -> None:
    for version in (0, 1):
        topics = [{"name": "other", "partitions": [{"partition": 3, "snapshot_id": {}}]}]
        topic = refusal(ApiKey.FETCH_SNAPSHOT, version, {"topics": topics}).topics[0]
        assert (topic.name, topic.partitions[0].index) == ("other", 3)
        assert topic.partitions[0].error_code is ErrorCode.unknown_topic_or_partition


def test_request_with_many_topics_is_rejected_once() -> None:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}] * 10_000
    for api_key in (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH):
        assert refusal(api_key, 0, {"topics": topics}).topics == ()
    described = refusal(ApiKey.DESCRIBE_QUORUM, 2, {"topics": topics})
    assert len(described.topics) == 10_000


@pytest.mark.parametrize(
    "endpoints",
    [
        [{**ONE, "name": f"listener{number}"} for number in range(ENDPOINTS_MAX + 1)],
        [{**ONE, "host": "a" * 10_000}],
        [{**ONE, "name": "a" * 10_000}],
    ],
    ids=("many", "a long host", "a long name"),
)
def test_oversized_endpoints_are_rejected(endpoints: list[dict[str, Any]]) -> None:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    requests: list[tuple[int, int, dict[str, Any]]] = [
        (ApiKey.BEGIN_QUORUM_EPOCH, 1, {"topics": topics, "leader_endpoints": endpoints}),
        (ApiKey.END_QUORUM_EPOCH, 1, {"topics": topics, "leader_endpoints": endpoints}),
        (ApiKey.ADD_RAFT_VOTER, 1, {"listeners": endpoints}),
        (ApiKey.UPDATE_RAFT_VOTER, 0, {"listeners": endpoints}),
    ]
    for api_key, version, fields in requests:
        assert refusal(api_key, version, fields).error_code is ErrorCode.invalid_request


def test_duplicate_listener_names_are_merged() -> None:
    listeners = [ONE, {**ONE, "name": "CONTROLLER", "port": 1}, {**ONE, "name": "Controller", "host": "", "port": 0}]
    (endpoint,) = read(ApiKey.ADD_RAFT_VOTER, 1, {"listeners": listeners}).endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "", 0)


def test_error_response_can_be_written_in_every_version() -> None:
    highest = {api_key: CONTROLLER_APIS[api_key].high for api_key in CONSENSUS_APIS}
    for api_key, last in highest.items():
        for version in range(4 if api_key == ApiKey.FETCH else 0, last + 1):
            messages = schema(api_key, version)
            for error in (
                ErrorCode.not_controller,
                ErrorCode.cluster_authorization_failed,
                ErrorCode.unknown_server_error,
            ):
                data = messages.write(wire.refuse(api_key, messages, error))
                response, size = messages.read_response(data, 0)
                assert size == len(data)
                assert getattr(response, "error_code", error) is error


# Responses


def fetch_response(**partition: Any) -> FetchResponse:
    messages = schema(ApiKey.FETCH, 18)
    message = build(
        messages.response_type,
        {**FINE, "responses": [{"topic_id": METADATA_TOPIC_ID, "partitions": [{**FINE, "records": b"", **partition}]}]},
    )
    response = wire.read_response(ApiKey.FETCH, message, listener_name="CONTROLLER")
    assert isinstance(response, FetchResponse)
    return response


@pytest.mark.parametrize("topic_id", [None, UUID(int=2)])
def test_response_about_another_topic_is_an_error(topic_id: UUID | None) -> None:
    messages = schema(ApiKey.FETCH, 18)
    leader = {"leader_id": 5, "leader_epoch": 9}
    message = build(
        messages.response_type,
        {
            **FINE,
            "responses": [{"topic_id": topic_id, "partitions": [{**FINE, "records": b"", "current_leader": leader}]}],
        },
    )
    assert wire.read_response(ApiKey.FETCH, message, listener_name="CONTROLLER") == FetchResponse(
        error=ErrorCode.unknown_server_error
    )


@pytest.mark.parametrize(
    "api_key", [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT, ApiKey.FETCH]
)
def test_empty_response_is_an_error(api_key: int) -> None:
    messages = schema(api_key, CONTROLLER_APIS[api_key].high)
    response = wire.read_response(api_key, build(messages.response_type, FINE), listener_name="CONTROLLER")
    assert isinstance(response, LeaderNaming)
    assert (response.error, response.leader_epoch) == (ErrorCode.unknown_server_error, -1)


@pytest.mark.parametrize(
    "partition",
    [
        {"snapshot_id": {"end_offset": 5, "epoch": -1}},
        {"snapshot_id": {"end_offset": -1, "epoch": 5}},
        {"diverging_epoch": {"end_offset": -2, "epoch": 5}},
        {"diverging_epoch": {"end_offset": 2, "epoch": -1}},
    ],
)
def test_incomplete_instruction_is_ignored(partition: dict[str, Any]) -> None:
    leader = {"leader_id": 5, "leader_epoch": 9}
    response = fetch_response(current_leader=leader, **partition)
    assert response == FetchResponse(error=ErrorCode.unknown_server_error)


@pytest.mark.parametrize(
    ("host", "port"), [("", 9093), ("one.example", 0), ("one.example", -1), ("one.example", 1 << 20)]
)
def test_leader_with_an_invalid_address_has_no_endpoint(host: str, port: int) -> None:
    for api_key, version in ((ApiKey.FETCH, 18), (ApiKey.UPDATE_RAFT_VOTER, 0)):
        messages = schema(api_key, version)
        leader = {"leader_id": 5, "leader_epoch": 9, "host": host, "port": port}
        topics = [{"topic_id": METADATA_TOPIC_ID, "partitions": [{**FINE, "records": b"", "current_leader": leader}]}]
        nodes = [{"node_id": 5, "host": host, "port": port}]
        fields = {**FINE, "responses": topics, "node_endpoints": nodes, "current_leader": leader}
        response = wire.read_response(api_key, build(messages.response_type, fields), listener_name="CONTROLLER")
        assert isinstance(response, LeaderNaming)
        assert (response.leader_id, response.leader_epoch, response.leader_endpoints) == (5, 9, ())


def test_endpoints_of_other_nodes_are_ignored() -> None:
    messages = schema(ApiKey.VOTE, 2)
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{**FINE, "leader_id": 5, "leader_epoch": 9}]}]
    fields = {**FINE, "topics": topics, "node_endpoints": [{"node_id": 6, "host": "six.example", "port": 9093}]}
    response = wire.read_response(ApiKey.VOTE, build(messages.response_type, fields), listener_name="CONTROLLER")
    assert response == VoteResponse(leader_id=5, leader_epoch=9)


def test_unsupported_request_is_an_error_response() -> None:
    for request_type, api_key in wire.API_OF.items():
        response = wire.peer_error_response(api_key, ErrorCode.unsupported_version)
        assert response.error is ErrorCode.unsupported_version
        assert type(response).__name__ == request_type.__name__.replace("Request", "Response")


# Batches

CONTROL = build_control_batch(
    [KRaftVersion(kraft_version=1), KRaftVersion(kraft_version=1)], base_offset=7, leader_epoch=3, timestamp=1
)
DATA = build_batch([Record(None, b"x" * 20, 1)], base_offset=9, leader_epoch=3)


def changed(batch: bytes, position: int, form: str, value: int) -> bytes:
    """With a CRC that fits."""
    copy = bytearray(batch)
    struct.pack_into(form, copy, position, value)
    struct.pack_into(">I", copy, 17, compute_crc(copy, parse_header(copy)))
    return bytes(copy)


def test_batches_keep_their_bytes() -> None:
    control, data = wire.read_batches(CONTROL + DATA)
    assert (control.base_offset, control.last_offset, control.epoch, control.data) == (7, 8, 3, CONTROL)
    assert control.control == (KRaftVersion(kraft_version=1),) * 2
    assert (data.base_offset, data.last_offset, data.control, data.data) == (9, 9, (), DATA)


def test_truncated_last_batch_is_ignored() -> None:
    for size in range(len(DATA)):
        assert wire.read_batches(CONTROL + DATA[:size]) == wire.read_batches(CONTROL)


def test_an_unknown_control_record_keeps_its_offset() -> None:
    known = Record(bytes.fromhex("00000005"), bytes.fromhex("0000000100"), 1)
    unknown = Record(bytes.fromhex("00000063"), b"later", 1)
    marker = Record(bytes.fromhex("00000001"), bytes.fromhex("000000000001"), 1)
    batch = build_batch([unknown, marker, known], base_offset=0, leader_epoch=1, is_control=True)
    (read,) = wire.read_batches(batch)
    assert [type(one) for one in read.control] == [wire.UnknownControl, wire.UnknownControl, KRaftVersion]


@pytest.mark.parametrize(
    "batch",
    [
        changed(CONTROL, 57, ">i", 1),
        changed(CONTROL, 57, ">i", 0x7FFFFFFF),
        changed(CONTROL, 57, ">i", -1),
        changed(CONTROL, 23, ">i", 0x7FFFFFFE),
        changed(CONTROL, 23, ">i", -5),
        changed(changed(CONTROL, 23, ">i", 0x7FFFFFFE), 57, ">i", 0x7FFFFFFF),
        changed(DATA, 57, ">i", 2),
        changed(changed(DATA, 57, ">i", 0), 23, ">i", -1),
        CONTROL[:-1] + b"\xff",
        bytes(200),
        build_batch(
            [Record(bytes.fromhex("00000005"), bytes.fromhex("0000000100"), 1)],
            base_offset=0,
            leader_epoch=1,
            is_control=True,
            compression=Compression.GZIP,
        ),
        build_batch([Record(None, b"", 1)], base_offset=0, leader_epoch=1, is_control=True),
        build_batch(
            [Record(bytes.fromhex("00000006"), b"\x00\x00\xff\xff", 1)], base_offset=0, leader_epoch=1, is_control=True
        ),
    ],
)
def test_corrupt_batches(batch: bytes) -> None:
    with pytest.raises(CorruptBatch):
        wire.read_batches(batch)


# Anything


def test_changed_bytes_are_detected() -> None:
    """Whatever kio can read is read, refused, or corrupt."""
    chance = random.Random(1)
    recorded = recording.read()
    for _ in range(4000):
        one = chance.choice(recorded)
        messages = schema(one.api_key, one.version)
        request, response = bytearray(one.request), bytearray(one.response)
        for data in (request, response):
            for _ in range(chance.randrange(1, 4)):
                data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        _try_request(messages, bytes(request))
        if one.api_key != ApiKey.DESCRIBE_QUORUM and not (one.api_key == ApiKey.FETCH and one.version < 13):
            _try_response(messages, bytes(response))


def _try_request(messages: Schema, data: bytes) -> None:
    try:
        request, _ = messages.read_request(data, 0)
    except SerialError:
        return
    try:
        wire.read_request(messages.api_key, request, messages)
    except wire.RefusedRequest as refused:
        messages.write(refused.response)


def _try_response(messages: Schema, data: bytes) -> None:
    try:
        message, _ = messages.read_response(data, 0)
    except (SerialError, ValueError, KeyError):
        # The last two are kio's, for errors and tagged fields that it does not know: no matter of this package.
        return
    try:
        response = wire.read_response(messages.api_key, message, listener_name="CONTROLLER")
    except CorruptBatch:
        return
    written = wire.write_response(
        messages.api_key, messages, response, listener_name="CONTROLLER", wall_ms_of=lambda ms: ms
    )
    messages.write(written)
