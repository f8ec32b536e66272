"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter."""

from datetime import timedelta
from typing import Final

from odradek.core.raft.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum.wire.endpoints import are_reasonable, read_endpoints, write_endpoints
from odradek.quorum.wire.leader_naming import address_on, read_address, with_leader, without_leader
from odradek.quorum.wire.parts import request_class
from odradek.quorum.wire.refusals import invalid, message_of
from odradek.records.control import KRaftVersionRange
from odradek.wire.schemas import Message, Schema

_ADD_TIMEOUT: Final = timedelta(seconds=2)
"""Not used: the leader has its own timeout."""

# Adding


def read_add_request(request: Message, schema: Schema) -> AddRaftVoterRequest:
    endpoints = read_endpoints(request.listeners)
    if not are_reasonable(endpoints):
        raise invalid(schema)
    return AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter=_read_voter(request),
        endpoints=endpoints,
        ack_when_committed=getattr(request, "ack_when_committed", True),
    )


def write_add_request(schema: Schema, request: AddRaftVoterRequest) -> Message:
    """A version without `ack_when_committed` gets its response after the commit."""
    return schema.new(
        "AddRaftVoterRequest",
        cluster_id=request.cluster_id,
        timeout=_ADD_TIMEOUT,
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
        listeners=write_endpoints(request_class(schema, "Listener"), request.endpoints),
        ack_when_committed=request.ack_when_committed,
    )


def read_add_response(response: Message, listener_name: str) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error=response.error_code, error_message=response.error_message)


# Removing


def read_remove_request(request: Message, schema: Schema) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=request.cluster_id, voter=_read_voter(request))


def write_remove_request(schema: Schema, request: RemoveRaftVoterRequest) -> Message:
    return schema.new(
        "RemoveRaftVoterRequest",
        cluster_id=request.cluster_id,
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
    )


def read_remove_response(response: Message, listener_name: str) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error=response.error_code, error_message=response.error_message)


def write_change_response(schema: Schema, response: AddRaftVoterResponse | RemoveRaftVoterResponse) -> Message:
    return schema.new(
        schema.response_type.__name__,
        throttle_time=timedelta(0),
        error_code=response.error,
        error_message=message_of(response.error) if response.error_message is None else response.error_message,
    )


# Updating


def read_update_request(request: Message, schema: Schema) -> UpdateRaftVoterRequest:
    endpoints = read_endpoints(request.listeners)
    if not are_reasonable(endpoints):
        raise invalid(schema)
    versions = request.k_raft_version_feature
    return UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.current_leader_epoch,
        voter=_read_voter(request),
        endpoints=endpoints,
        kraft_versions=KRaftVersionRange(
            min_supported_version=versions.min_supported_version, max_supported_version=versions.max_supported_version
        ),
    )


def write_update_request(schema: Schema, request: UpdateRaftVoterRequest) -> Message:
    versions = request.kraft_versions
    return schema.new(
        "UpdateRaftVoterRequest",
        cluster_id=request.cluster_id,
        current_leader_epoch=request.current_leader_epoch,
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
        listeners=write_endpoints(request_class(schema, "Listener"), request.endpoints),
        k_raft_version_feature=request_class(schema, "KRaftVersionFeature")(
            min_supported_version=versions.min_supported_version, max_supported_version=versions.max_supported_version
        ),
    )


def read_update_response(response: Message, listener_name: str) -> UpdateRaftVoterResponse:
    leader = response.current_leader
    if leader.leader_epoch < 0:
        return without_leader(UpdateRaftVoterResponse, response.error_code)
    endpoints = read_address(leader, listener_name) if leader.leader_id >= 0 else ()
    return with_leader(UpdateRaftVoterResponse, response.error_code, leader, endpoints)


def write_update_response(schema: Schema, response: UpdateRaftVoterResponse, listener_name: str) -> Message:
    address = address_on(response, listener_name)
    return schema.new(
        "UpdateRaftVoterResponse",
        throttle_time=timedelta(0),
        error_code=response.error,
        current_leader=schema.new(
            "CurrentLeader",
            leader_id=response.leader_id,
            leader_epoch=response.leader_epoch,
            host="" if address is None else address.host,
            port=0 if address is None else address.port,
        ),
    )


def _read_voter(request: Message) -> ReplicaKey:
    return ReplicaKey(request.voter_id, request.voter_directory_id)
