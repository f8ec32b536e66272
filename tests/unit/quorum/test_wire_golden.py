"""Byte for byte what Apache Kafka's controllers write: recorded in tests/golden/quorum_wire."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.raft.messages import DescribeQuorumResponse, ReplicaStatus, Response
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum import wire
from odradek.records.control import VoterEndpoint
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, schema
from tests.kafka.quorum_wire import recording
from tests.kafka.quorum_wire.recording import Recorded
from tests.kafka.quorum_wire.requests import NAMES

LISTENER = "CONTROLLER"
RECORDED = recording.read()
HAS_TOP_LEVEL_ERROR = frozenset({ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH})


def named(one: Recorded) -> str:
    return f"{NAMES[one.api_key]} v{one.version} {one.title}"


def schema_of(one: Recorded) -> Schema:
    return schema(one.api_key, one.version)


def request_of(one: Recorded) -> Message:
    request, size = schema_of(one).read_request(one.request, 0)
    assert size == len(one.request)
    return request


def response_of(one: Recorded) -> Message:
    response, size = schema_of(one).read_response(one.response, 0)
    assert size == len(one.response)
    return response


def is_refused(one: Recorded) -> bool:
    try:
        wire.read_request(one.api_key, request_of(one), schema_of(one))
    except wire.RefusedRequest:
        return True
    return False


def is_kafkas_failure(one: Recorded) -> bool:
    """See wire/snapshots.py."""
    return one.api_key == ApiKey.FETCH_SNAPSHOT and response_of(one).error_code is ErrorCode.unknown_server_error


def is_wrong_twice(one: Recorded) -> bool:
    """Kafka looks at the cluster first; here it is the replica that knows its cluster."""
    return one.api_key == ApiKey.FETCH and one.version < 13 and one.title.endswith("another cluster")


ACCEPTED = [one for one in RECORDED if not is_refused(one)]
REFUSED = [one for one in RECORDED if is_refused(one)]


def test_all_kinds_were_recorded() -> None:
    assert {one.api_key for one in RECORDED} == set(NAMES)
    titles = {one.title for one in RECORDED if one.title.startswith("between controllers")}
    assert {
        "between controllers: pre-vote, none, granted",
        "between controllers: vote, none, granted",
        "between controllers: none, records",
        "between controllers: none, no records, a snapshot",
    } <= titles


@pytest.mark.parametrize("one", ACCEPTED, ids=named)
def test_requests_are_written_as_kafka_writes_them(one: Recorded) -> None:
    if one.api_key == ApiKey.DESCRIBE_QUORUM:
        return
    request = wire.read_request(one.api_key, request_of(one), schema_of(one))
    assert schema_of(one).write(wire.write_request(schema_of(one), request)) == one.request


@pytest.mark.parametrize("one", [one for one in ACCEPTED if not is_kafkas_failure(one)], ids=named)
def test_responses_are_written_as_kafka_writes_them(one: Recorded) -> None:
    message = response_of(one)
    if one.api_key == ApiKey.DESCRIBE_QUORUM:
        response: Response = described(message)
    else:
        response = wire.read_response(one.api_key, message, listener_name=LISTENER)
    records = message.responses[0].partitions[0].records if one.api_key == ApiKey.FETCH and message.responses else b""
    written = wire.write_response(
        one.api_key, schema_of(one), response, listener_name=LISTENER, wall_ms_of=lambda ms: ms, records=records
    )
    assert schema_of(one).write(written) == one.response


@pytest.mark.parametrize("one", [one for one in REFUSED if not is_kafkas_failure(one)], ids=named)
def test_error_responses_equal_kafka(one: Recorded) -> None:
    if is_wrong_twice(one):
        return
    with pytest.raises(wire.RefusedRequest) as refused:
        wire.read_request(one.api_key, request_of(one), schema_of(one))
    assert schema_of(one).write(refused.value.response) == one.response


@pytest.mark.parametrize("one", ACCEPTED, ids=named)
def test_invalid_requests_do_not_reach_the_replica(one: Recorded) -> None:
    if one.api_key in HAS_TOP_LEVEL_ERROR:
        assert response_of(one).error_code in (ErrorCode.none, ErrorCode.inconsistent_cluster_id)


def test_unknown_server_error_of_kafka_is_an_error() -> None:
    failures = [one for one in RECORDED if is_kafkas_failure(one)]
    assert failures
    for one in failures:
        response = wire.read_response(one.api_key, response_of(one), listener_name=LISTENER)
        assert (response.error, response.snapshot_id, response.data) == (ErrorCode.unknown_server_error, None, b"")


def test_control_records_of_kafka_are_read() -> None:
    fetched = [
        batch
        for one in ACCEPTED
        if one.api_key == ApiKey.FETCH and response_of(one).responses
        for batch in wire.read_batches(response_of(one).responses[0].partitions[0].records)
    ]
    assert fetched
    assert all(batch.base_offset <= batch.last_offset and batch.data for batch in fetched)


def described(message: Message) -> DescribeQuorumResponse:
    """The other way: only tools read this response."""
    partition = message.topics[0].partitions[0]
    if partition.error_code is not ErrorCode.none:
        return DescribeQuorumResponse(error=partition.error_code)
    return DescribeQuorumResponse(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(map(status, partition.current_voters)),
        observers=tuple(map(status, partition.observers)),
        endpoints=tuple(
            (
                node.node_id,
                tuple(VoterEndpoint(name=one.name, host=one.host, port=one.port) for one in node.listeners),
            )
            for node in getattr(message, "nodes", ())
        ),
    )


def status(replica: Message) -> ReplicaStatus:
    return ReplicaStatus(
        replica=ReplicaKey(replica.replica_id, getattr(replica, "replica_directory_id", None)),
        log_end_offset=replica.log_end_offset,
        last_fetch_ms=getattr(replica, "last_fetch_timestamp", -1),
        last_caught_up_ms=getattr(replica, "last_caught_up_timestamp", -1),
    )
