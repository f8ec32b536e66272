"""The Raft APIs on the wire: translates kio's messages to `raft.messages` and back, in all versions of Kafka 4.3.1.

Pure functions. They check what a message is about, and that nothing in it is beyond reason; what it means to the
quorum is for the replica to judge.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.core.raft import messages
from odradek.core.raft.messages import (
    AddRaftVoterResponse,
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    DescribeQuorumResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    LeaderNaming,
    RemoveRaftVoterResponse,
    Request,
    Response,
    UpdateRaftVoterResponse,
    VoteResponse,
)
from odradek.quorum.wire import description, elections, refusals, replication, snapshots, voters
from odradek.quorum.wire.batches import UnknownControl, read_batches
from odradek.quorum.wire.refusals import RefusedRequest, UnsupportedRequest
from odradek.quorum.wire.replication import refuse_fetch
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

__all__ = [
    "API_OF",
    "RefusedRequest",
    "UnknownControl",
    "UnsupportedRequest",
    "peer_error_response",
    "read_batches",
    "read_request",
    "read_response",
    "refuse",
    "refuse_fetch",
    "write_request",
    "write_response",
]

API_OF: Final[Mapping[type[Request], int]] = MappingProxyType(
    {
        messages.VoteRequest: ApiKey.VOTE,
        messages.BeginQuorumEpochRequest: ApiKey.BEGIN_QUORUM_EPOCH,
        messages.EndQuorumEpochRequest: ApiKey.END_QUORUM_EPOCH,
        messages.FetchRequest: ApiKey.FETCH,
        messages.FetchSnapshotRequest: ApiKey.FETCH_SNAPSHOT,
        messages.AddRaftVoterRequest: ApiKey.ADD_RAFT_VOTER,
        messages.RemoveRaftVoterRequest: ApiKey.REMOVE_RAFT_VOTER,
        messages.UpdateRaftVoterRequest: ApiKey.UPDATE_RAFT_VOTER,
        messages.ApiVersionsRequest: ApiKey.API_VERSIONS,
    }
)
"""The APIs of the requests that a replica sends. ApiVersions is part of opening a connection."""


class _ClientSide(NamedTuple):
    write_request: Callable[[Schema, Any], Message]
    read_response: Callable[[Message, str], Response]


_CLIENT_SIDE: Final[Mapping[int, _ClientSide]] = {
    ApiKey.VOTE: _ClientSide(elections.write_vote_request, elections.read_vote_response),
    ApiKey.BEGIN_QUORUM_EPOCH: _ClientSide(elections.write_begin_request, elections.read_begin_response),
    ApiKey.END_QUORUM_EPOCH: _ClientSide(elections.write_end_request, elections.read_end_response),
    ApiKey.FETCH: _ClientSide(replication.write_fetch_request, replication.read_fetch_response),
    ApiKey.FETCH_SNAPSHOT: _ClientSide(snapshots.write_snapshot_request, snapshots.read_snapshot_response),
    ApiKey.ADD_RAFT_VOTER: _ClientSide(voters.write_add_request, voters.read_add_response),
    ApiKey.REMOVE_RAFT_VOTER: _ClientSide(voters.write_remove_request, voters.read_remove_response),
    ApiKey.UPDATE_RAFT_VOTER: _ClientSide(voters.write_update_request, voters.read_update_response),
}

_RESPONSE_TYPE: Final[Mapping[int, type[Response]]] = {
    ApiKey.VOTE: VoteResponse,
    ApiKey.BEGIN_QUORUM_EPOCH: BeginQuorumEpochResponse,
    ApiKey.END_QUORUM_EPOCH: EndQuorumEpochResponse,
    ApiKey.FETCH: FetchResponse,
    ApiKey.FETCH_SNAPSHOT: FetchSnapshotResponse,
    ApiKey.ADD_RAFT_VOTER: AddRaftVoterResponse,
    ApiKey.REMOVE_RAFT_VOTER: RemoveRaftVoterResponse,
    ApiKey.UPDATE_RAFT_VOTER: UpdateRaftVoterResponse,
    ApiKey.API_VERSIONS: ApiVersionsResponse,
}

_READ_REQUEST: Final[Mapping[int, Callable[[Message, Schema], Request]]] = {
    ApiKey.VOTE: elections.read_vote_request,
    ApiKey.BEGIN_QUORUM_EPOCH: elections.read_begin_request,
    ApiKey.END_QUORUM_EPOCH: elections.read_end_request,
    ApiKey.FETCH: replication.read_fetch_request,
    ApiKey.FETCH_SNAPSHOT: snapshots.read_snapshot_request,
    ApiKey.DESCRIBE_QUORUM: description.read_describe_request,
    ApiKey.ADD_RAFT_VOTER: voters.read_add_request,
    ApiKey.REMOVE_RAFT_VOTER: voters.read_remove_request,
    ApiKey.UPDATE_RAFT_VOTER: voters.read_update_request,
}


# As a server


def read_request(api_key: int, request: Message, schema: Schema) -> Request:
    """Raises RefusedRequest, which contains the response."""
    return _READ_REQUEST[api_key](request, schema)


def write_response(
    api_key: int,
    schema: Schema,
    response: Response,
    *,
    listener_name: str,
    wall_ms_of: Callable[[int], int],
    records: bytes = b"",
) -> Message:
    """`listener_name` is the listener on which the request arrived; `records` are the batches of a Fetch."""
    if isinstance(response, LeaderNaming) and response.leader_epoch < 0:
        return refuse(api_key, schema, response.error)
    match response:
        case VoteResponse():
            return elections.write_vote_response(schema, response, listener_name)
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            return elections.write_epoch_response(schema, response, listener_name)
        case FetchResponse():
            return replication.write_fetch_response(schema, response, listener_name, records)
        case FetchSnapshotResponse():
            return snapshots.write_snapshot_response(schema, response, listener_name)
        case UpdateRaftVoterResponse():
            return voters.write_update_response(schema, response, listener_name)
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            return voters.write_change_response(schema, response)
        case DescribeQuorumResponse():
            return description.write_describe_response(schema, response, wall_ms_of)
        case ApiVersionsResponse():
            raise TypeError("the quorum does not serve ApiVersions")


def refuse(api_key: int, schema: Schema, error: ErrorCode) -> Message:
    """A response with this error and nothing about the quorum."""
    return refusals.refuse(schema, error)


# As a client


def write_request(schema: Schema, request: Request) -> Message:
    """Raises UnsupportedRequest."""
    return _CLIENT_SIDE[schema.api_key].write_request(schema, request)


def read_response(api_key: int, response: Message, *, listener_name: str) -> Response:
    """`listener_name` is the listener by which this node connects to controllers. Raises CorruptBatch."""
    return _CLIENT_SIDE[api_key].read_response(response, listener_name)


def peer_error_response(api_key: int, error: ErrorCode) -> Response:
    """The response for a peer that does not serve the request."""
    return _RESPONSE_TYPE[api_key](error=error)
