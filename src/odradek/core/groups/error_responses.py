"""Responses to commands that no coordinator executes: it is loading, on another broker, or cannot write."""

from odradek.base.errors import ErrorCode
from odradek.core.append_errors import coordinator_error
from odradek.core.groups.commands import (
    UNKNOWN_MEMBER_ID,
    Command,
    CommitOffsets,
    CommitOffsetsInTransaction,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DeleteGroups,
    DeleteGroupsResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    Response,
    SyncGroup,
    SyncResponse,
)
from odradek.core.groups.offsets import rejected_commit


def error_response(command: Command, error: ErrorCode) -> Response:
    """`error` is that of the partition, or of the coordinator's state."""
    code = coordinator_error(error)
    match command:
        case JoinGroup():
            return JoinResponse(code, UNKNOWN_MEMBER_ID)
        case SyncGroup():
            return SyncResponse(code)
        case Heartbeat():
            # No session expires while a coordinator loads, so that members need not know of it.
            return HeartbeatResponse(ErrorCode.none if code is ErrorCode.coordinator_load_in_progress else code)
        case LeaveGroup():
            return LeaveResponse(code)
        case ConsumerGroupHeartbeat():
            return ConsumerGroupHeartbeatResponse(code)
        case CommitOffsets() | CommitOffsetsInTransaction():
            return rejected_commit(command.topics, code)
        case FetchOffsets():
            # Clients do not expect a failed write in a fetch: this error makes them find the coordinator again.
            failed = code is ErrorCode.coordinator_not_available and code is not error
            return FetchOffsetsResponse(command.group_id, ErrorCode.not_coordinator if failed else code)
        case DeleteOffsets():
            return DeleteOffsetsResponse(code)
        case DeleteGroups():
            return DeleteGroupsResponse(tuple((group_id, code) for group_id in command.group_ids))
