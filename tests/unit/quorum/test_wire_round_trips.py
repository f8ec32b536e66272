"""What one replica writes, another one reads: every message through its bytes, in every version."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import OffsetAndEpoch
from odradek.core.raft.messages import (
    ANY_HIGH_WATERMARK,
    NO_NODE,
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderNaming,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    Request,
    Response,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum import wire
from odradek.records.control import KRaftVersionRange, LeaderChangeV0, VoterById, VoterEndpoint, build_control_batch
from odradek.wire.apis import CONTROLLER_APIS, ApiKey
from odradek.wire.schemas import Message, Schema, schema

ME = ReplicaKey(1, UUID(int=101))
OTHER = ReplicaKey(2, UUID(int=102))
CONTROLLER = VoterEndpoint(name="CONTROLLER", host="one.example", port=9093)
SECURE = VoterEndpoint(name="SECURE", host="one.example", port=9094)
NAMING = {"leader_id": 1, "leader_epoch": 7, "leader_endpoints": (CONTROLLER,)}
RECORDS = build_control_batch(
    [LeaderChangeV0(leader_id=1, voters=(VoterById(voter_id=1),), granting_voters=())],
    base_offset=40,
    leader_epoch=7,
    timestamp=1_000,
)

REQUESTS: tuple[Request, ...] = (
    VoteRequest(
        cluster_id="cluster",
        voter=OTHER,
        replica=ME,
        replica_epoch=8,
        last_offset=41,
        last_offset_epoch=7,
        pre_vote=False,
    ),
    BeginQuorumEpochRequest(
        cluster_id="cluster", voter=OTHER, leader_id=1, leader_epoch=7, leader_endpoints=(CONTROLLER, SECURE)
    ),
    EndQuorumEpochRequest(
        cluster_id="cluster",
        leader_id=1,
        leader_epoch=7,
        preferred_candidates=(OTHER, ReplicaKey(3, UUID(int=103))),
        leader_endpoints=(CONTROLLER,),
    ),
    FetchRequest(
        cluster_id="cluster",
        replica=ME,
        current_leader_epoch=7,
        fetch_offset=41,
        last_fetched_epoch=6,
        high_watermark=39,
        max_bytes=8 << 20,
        max_wait_ms=500,
    ),
    FetchSnapshotRequest(
        cluster_id="cluster",
        replica=ME,
        current_leader_epoch=7,
        snapshot_id=SnapshotId(30, 5),
        position=4096,
        max_bytes=1 << 20,
    ),
    AddRaftVoterRequest(cluster_id="cluster", voter=ME, endpoints=(CONTROLLER, SECURE), ack_when_committed=False),
    RemoveRaftVoterRequest(cluster_id="cluster", voter=ME),
    UpdateRaftVoterRequest(
        cluster_id="cluster",
        current_leader_epoch=7,
        voter=ME,
        endpoints=(CONTROLLER,),
        kraft_versions=KRaftVersionRange(min_supported_version=0, max_supported_version=1),
    ),
)

RESPONSES: tuple[Response, ...] = (
    VoteResponse(vote_granted=True, **NAMING),
    VoteResponse(error=ErrorCode.fenced_leader_epoch, leader_epoch=9),
    BeginQuorumEpochResponse(**NAMING),
    EndQuorumEpochResponse(error=ErrorCode.invalid_voter_key, **NAMING),
    FetchResponse(high_watermark=39, log_start_offset=3, **NAMING),
    FetchResponse(log_start_offset=3, diverging_epoch=OffsetAndEpoch(12, 4), **NAMING),
    FetchResponse(log_start_offset=30, snapshot_id=SnapshotId(30, 5), **NAMING),
    FetchResponse(error=ErrorCode.not_leader_or_follower, leader_epoch=7),
    FetchSnapshotResponse(snapshot_id=SnapshotId(30, 5), size_bytes=9, position=4, data=b"abcd", **NAMING),
    AddRaftVoterResponse(error=ErrorCode.duplicate_voter, error_message="there already"),
    RemoveRaftVoterResponse(error=ErrorCode.voter_not_found, error_message="not there"),
    UpdateRaftVoterResponse(**NAMING),
    UpdateRaftVoterResponse(error=ErrorCode.not_leader_or_follower, leader_epoch=7),
)
API_OF_RESPONSE = {
    VoteResponse: ApiKey.VOTE,
    BeginQuorumEpochResponse: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpochResponse: ApiKey.END_QUORUM_EPOCH,
    FetchResponse: ApiKey.FETCH,
    FetchSnapshotResponse: ApiKey.FETCH_SNAPSHOT,
    AddRaftVoterResponse: ApiKey.ADD_RAFT_VOTER,
    RemoveRaftVoterResponse: ApiKey.REMOVE_RAFT_VOTER,
    UpdateRaftVoterResponse: ApiKey.UPDATE_RAFT_VOTER,
}


def versions(api_key: int) -> Iterator[Schema]:
    first = 13 if api_key == ApiKey.FETCH else 0
    for version in range(first, CONTROLLER_APIS[api_key].high + 1):
        yield schema(api_key, version)


def through_bytes(one: Schema, message: Message) -> Message:
    data = one.write(message)
    read = one.read_request if isinstance(message, one.request_type) else one.read_response
    copy, size = read(data, 0)
    assert size == len(data)
    return copy


def as_of(version: int, request: Request) -> Request:
    """What is left of a request in a version that has no room for all of it."""
    match request:
        case VoteRequest() if version == 0:
            return replace(request, voter=ReplicaKey(NO_NODE, None), replica=ReplicaKey(1, None))
        case BeginQuorumEpochRequest() if version == 0:
            return replace(request, voter=ReplicaKey(NO_NODE, None), leader_endpoints=())
        case EndQuorumEpochRequest() if version == 0:
            candidates = tuple(ReplicaKey(key.node_id, None) for key in request.preferred_candidates)
            return replace(request, preferred_candidates=candidates, leader_endpoints=())
        case FetchRequest() if version < 18:
            replica = ME if version == 17 else ReplicaKey(1, None)
            return replace(request, replica=replica, high_watermark=ANY_HIGH_WATERMARK)
        case FetchSnapshotRequest() if version == 0:
            return replace(request, replica=ReplicaKey(1, None))
        case AddRaftVoterRequest() if version == 0:
            return replace(request, ack_when_committed=True)
    return request


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_requests_round_trip(request_: Request) -> None:
    api_key = wire.API_OF[type(request_)]
    for one in versions(api_key):
        message = through_bytes(one, wire.write_request(one, request_))
        assert wire.read_request(api_key, message, one) == as_of(one.version, request_)


def write_and_read(one: Schema, response: Response, listener_name: str = "CONTROLLER") -> Response:
    message = wire.write_response(
        one.api_key, one, response, listener_name=listener_name, wall_ms_of=lambda ms: ms, records=RECORDS
    )
    return wire.read_response(one.api_key, through_bytes(one, message), listener_name="CONTROLLER")


def has_leader_address(one: Schema) -> bool:
    if one.api_key == ApiKey.FETCH:
        return one.version >= 17
    return one.api_key == ApiKey.UPDATE_RAFT_VOTER or one.version > 0


@pytest.mark.parametrize("response", RESPONSES, ids=lambda one: type(one).__name__)
def test_responses_round_trip(response: Response) -> None:
    for one in versions(API_OF_RESPONSE[type(response)]):
        expected = response
        if isinstance(expected, LeaderNaming) and not has_leader_address(one):
            expected = replace(expected, leader_endpoints=())
        if isinstance(expected, FetchResponse):
            expected = replace(expected, batches=wire.read_batches(RECORDS))
        assert write_and_read(one, response) == expected


def test_leader_address_is_that_of_the_request_listener() -> None:
    response = VoteResponse(leader_id=1, leader_epoch=7, leader_endpoints=(CONTROLLER, SECURE))
    secure = replace(SECURE, name="CONTROLLER")
    assert write_and_read(schema(ApiKey.VOTE, 2), response, "SECURE") == replace(response, leader_endpoints=(secure,))
    assert write_and_read(schema(ApiKey.VOTE, 2), response, "ELSEWHERE") == replace(response, leader_endpoints=())


def test_response_without_leader_has_no_address() -> None:
    response = VoteResponse(leader_epoch=7, leader_endpoints=(CONTROLLER,))
    assert write_and_read(schema(ApiKey.VOTE, 2), response) == replace(response, leader_endpoints=())


def test_error_without_epoch_fails_the_whole_request() -> None:
    for kind in (VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse, FetchResponse, FetchSnapshotResponse):
        for one in versions(API_OF_RESPONSE[kind]):
            response = kind(error=ErrorCode.inconsistent_cluster_id)
            assert write_and_read(one, response) == response


def test_pre_vote_is_never_written_as_a_vote() -> None:
    pre_vote = replace(REQUESTS[0], pre_vote=True)
    assert wire.read_request(
        ApiKey.VOTE, wire.write_request(schema(ApiKey.VOTE, 2), pre_vote), schema(ApiKey.VOTE, 2)
    ).pre_vote
    for version in (0, 1):
        with pytest.raises(KafkaError) as refusal:
            wire.write_request(schema(ApiKey.VOTE, version), pre_vote)
        assert refusal.value.code is ErrorCode.unsupported_version


def test_fetch_by_topic_name_is_not_supported() -> None:
    with pytest.raises(KafkaError) as refusal:
        wire.write_request(schema(ApiKey.FETCH, 12), REQUESTS[3])
    assert refusal.value.code is ErrorCode.unsupported_version
