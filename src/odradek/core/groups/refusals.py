"""What a command is answered where no coordinator takes it: it is loading, elsewhere, or could not write."""

from odradek.base.errors import ErrorCode
from odradek.core.append_refusals import refusal_of_append
from odradek.core.groups.commands import (
    UNKNOWN_MEMBER_ID,
    Answer,
    Command,
    CommitOffsets,
    CommitOffsetsInTransaction,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    DeleteGroups,
    DeleteGroupsAnswer,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    FetchAnswer,
    FetchOffsets,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    SyncAnswer,
    SyncGroup,
)
from odradek.core.groups.offsets import commit_refused


def refuse(command: Command, error: ErrorCode) -> Answer:
    """`error` as the partition or its loading gives it."""
    code = refusal_of_append(error)
    match command:
        case JoinGroup():
            return JoinAnswer(code, UNKNOWN_MEMBER_ID)
        case SyncGroup():
            return SyncAnswer(code)
        case Heartbeat():
            # Nobody's session ends while a coordinator loads, and no member has to know of it.
            return HeartbeatAnswer(ErrorCode.none if code is ErrorCode.coordinator_load_in_progress else code)
        case LeaveGroup():
            return LeaveAnswer(code)
        case ConsumerGroupHeartbeat():
            return ConsumerGroupHeartbeatAnswer(code)
        case CommitOffsets() | CommitOffsetsInTransaction():
            return commit_refused(command.topics, code)
        case FetchOffsets():
            # Clients that fetch do not expect to hear of a write that failed: they are to ask again, wherever.
            failed = code is ErrorCode.coordinator_not_available and code is not error
            return FetchAnswer(command.group_id, ErrorCode.not_coordinator if failed else code)
        case DeleteOffsets():
            return DeleteOffsetsAnswer(code)
        case DeleteGroups():
            return DeleteGroupsAnswer(tuple((group_id, code) for group_id in command.group_ids))
