"""Vote, BeginQuorumEpoch, EndQuorumEpoch."""

from dataclasses import replace

from odradek.base.errors import ErrorCode
from odradek.core.raft.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    LeaderNaming,
    VoteRequest,
    VoteResponse,
)
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum.wire.endpoints import are_reasonable, read_endpoints, write_endpoints
from odradek.quorum.wire.leader_naming import (
    Naming,
    read_node_endpoints,
    with_leader,
    without_leader,
    write_node_endpoints,
)
from odradek.quorum.wire.parts import only_partition, request_class, request_topics, response_topics
from odradek.quorum.wire.refusals import UnsupportedRequest, invalid
from odradek.wire.schemas import Message, Schema

# Vote


def read_vote_request(request: Message, schema: Schema) -> VoteRequest:
    partition = only_partition(request.topics)
    if partition is None:
        raise invalid(schema)
    return VoteRequest(
        cluster_id=request.cluster_id,
        voter=_read_voter(request, partition),
        replica=ReplicaKey(partition.replica_id, getattr(partition, "replica_directory_id", None)),
        replica_epoch=partition.replica_epoch,
        last_offset=partition.last_offset,
        last_offset_epoch=partition.last_offset_epoch,
        pre_vote=getattr(partition, "pre_vote", False),
    )


def write_vote_request(schema: Schema, request: VoteRequest) -> Message:
    if request.pre_vote and "pre_vote" not in request_class(schema, "PartitionData").known:
        # Without this field the request would be a binding vote.
        raise UnsupportedRequest(f"Vote v{schema.version} has no pre-votes")
    topics = request_topics(
        schema,
        replica_epoch=request.replica_epoch,
        replica_id=request.replica.node_id,
        replica_directory_id=request.replica.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_offset_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    return schema.new("VoteRequest", cluster_id=request.cluster_id, voter_id=request.voter.node_id, topics=topics)


def read_vote_response(response: Message, listener_name: str) -> VoteResponse:
    partition = only_partition(response.topics)
    is_granted = partition is not None and partition.vote_granted
    return replace(_read_naming(VoteResponse, response, listener_name), vote_granted=is_granted)


def write_vote_response(schema: Schema, response: VoteResponse, listener_name: str) -> Message:
    return _write_naming(schema, response, listener_name, vote_granted=response.vote_granted)


# BeginQuorumEpoch


def read_begin_request(request: Message, schema: Schema) -> BeginQuorumEpochRequest:
    partition = only_partition(request.topics)
    endpoints = read_endpoints(getattr(request, "leader_endpoints", ()))
    if partition is None or not are_reasonable(endpoints):
        raise invalid(schema)
    return BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter=_read_voter(request, partition),
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        leader_endpoints=endpoints,
    )


def write_begin_request(schema: Schema, request: BeginQuorumEpochRequest) -> Message:
    topics = request_topics(
        schema,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
    )
    return schema.new(
        "BeginQuorumEpochRequest",
        cluster_id=request.cluster_id,
        voter_id=request.voter.node_id,
        topics=topics,
        leader_endpoints=_write_leader_endpoints(schema, request),
    )


def read_begin_response(response: Message, listener_name: str) -> BeginQuorumEpochResponse:
    return _read_naming(BeginQuorumEpochResponse, response, listener_name)


# EndQuorumEpoch


def read_end_request(request: Message, schema: Schema) -> EndQuorumEpochRequest:
    partition = only_partition(request.topics)
    endpoints = read_endpoints(getattr(request, "leader_endpoints", ()))
    if partition is None or not are_reasonable(endpoints):
        raise invalid(schema)
    candidates = getattr(partition, "preferred_candidates", ())
    successor_ids = getattr(partition, "preferred_successors", ())
    return EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        preferred_candidates=tuple(ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in candidates)
        or tuple(ReplicaKey(node_id, None) for node_id in successor_ids),
        leader_endpoints=endpoints,
    )


def write_end_request(schema: Schema, request: EndQuorumEpochRequest) -> Message:
    topics = request_topics(
        schema,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=tuple(key.node_id for key in request.preferred_candidates),
        preferred_candidates=_write_candidates(schema, request.preferred_candidates),
    )
    return schema.new(
        "EndQuorumEpochRequest",
        cluster_id=request.cluster_id,
        topics=topics,
        leader_endpoints=_write_leader_endpoints(schema, request),
    )


def _write_candidates(schema: Schema, keys: tuple[ReplicaKey, ...]) -> tuple[Message, ...]:
    if not schema.knows("ReplicaInfo"):
        return ()
    candidate = request_class(schema, "ReplicaInfo")
    return tuple(candidate(candidate_id=key.node_id, candidate_directory_id=key.directory_id) for key in keys)


def read_end_response(response: Message, listener_name: str) -> EndQuorumEpochResponse:
    return _read_naming(EndQuorumEpochResponse, response, listener_name)


# Shared


def write_epoch_response(
    schema: Schema, response: BeginQuorumEpochResponse | EndQuorumEpochResponse, listener_name: str
) -> Message:
    return _write_naming(schema, response, listener_name)


def _read_voter(request: Message, partition: Message) -> ReplicaKey:
    return ReplicaKey(getattr(request, "voter_id", NO_NODE), getattr(partition, "voter_directory_id", None))


def _write_leader_endpoints(
    schema: Schema, request: BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> tuple[Message, ...]:
    if not schema.knows("LeaderEndpoint"):
        return ()
    return write_endpoints(request_class(schema, "LeaderEndpoint"), request.leader_endpoints)


def _write_naming(schema: Schema, response: LeaderNaming, listener_name: str, **partition: object) -> Message:
    topics = response_topics(
        schema,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        **partition,
    )
    return schema.new(
        schema.response_type.__name__,
        error_code=ErrorCode.none,
        topics=topics,
        node_endpoints=write_node_endpoints(schema, response, listener_name),
    )


def _read_naming(kind: type[Naming], response: Message, listener_name: str) -> Naming:
    partition = only_partition(response.topics)
    if response.error_code is not ErrorCode.none or partition is None:
        return without_leader(kind, response.error_code)
    endpoints = read_node_endpoints(response, partition.leader_id, listener_name)
    return with_leader(kind, partition.error_code, partition, endpoints)
