"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, deadlines and loading."""

from collections.abc import Callable
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.core.append_errors import coordinator_error
from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.classic_join import ClassicJoin
from odradek.core.groups.classic_member import EMPTY_ASSIGNMENT
from odradek.core.groups.classic_rebalance import ClassicRebalance
from odradek.core.groups.classic_records import record_of
from odradek.core.groups.commands import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncResponse,
)
from odradek.core.groups.coordinator_result import AssignmentWritten, CoordinatorResult, StaticMemberWritten, Token
from odradek.core.groups.groups import JOIN, SESSION, SYNC, DeadlineKey, Groups
from odradek.core.groups.settings import GroupSettings


class ClassicProtocol:
    def __init__(
        self, groups: Groups, settings: GroupSettings, rebalance: ClassicRebalance, new_uuid: Callable[[], UUID]
    ) -> None:
        self._groups = groups
        self._size_max = settings.classic_group_max_size
        self._rebalance = rebalance
        self._join_handler = ClassicJoin(groups, settings, rebalance, new_uuid)

    def join(self, command: JoinGroup, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        self._join_handler.join(command, token, now_ms, result)
        return result

    # ---- sync

    def sync(self, command: SyncGroup, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        group = self._groups.classic(command.group_id)
        error = _check_sync(group, command)
        if error is not ErrorCode.none or group is None:
            result.responses.append((token, SyncResponse(error)))
            return result
        member = group.members[command.member_id]
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._groups.deadlines.cancel((SYNC, group.group_id, ""))
        if group.state is State.STABLE:
            response = SyncResponse(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment)
            result.responses.append((token, response))
            return result
        # Completes an earlier sync of the same member, which Kafka would never complete.
        self._rebalance.respond_to_sync(member, SyncResponse(ErrorCode.rebalance_in_progress), result)
        member.awaiting_sync = token
        if group.is_leader(member.member_id):
            given = dict(command.assignments)
            assignment = {member_id: given.get(member_id, EMPTY_ASSIGNMENT) for member_id in group.members}
            result.write_classic_group(
                record_of(group, assignment),
                AssignmentWritten(group.group_id, group.generation_id, member.member_id, assignment),
            )
        return result

    # ---- heartbeats

    def heartbeat(self, command: Heartbeat, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        error = self._heartbeat(command, now_ms)
        is_rejected = error not in (ErrorCode.none, ErrorCode.rebalance_in_progress)
        (result.responses if is_rejected else result.responses_after_commit).append((token, HeartbeatResponse(error)))
        return result

    def _heartbeat(self, command: Heartbeat, now_ms: int) -> ErrorCode:
        if not command.group_id:
            return ErrorCode.invalid_group_id
        group = self._groups.classic(command.group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        if group.state is State.DEAD:
            return ErrorCode.coordinator_not_available
        error = group.check_member(command.member_id, command.instance_id)
        if error is not ErrorCode.none:
            return error
        if command.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        self._rebalance.renew_session_deadline(group, group.members[command.member_id], now_ms)
        if group.state is State.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def renew_session(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A commit of offsets renews the session too."""
        member = group.members.get(member_id)
        if member is not None and group.state in (State.STABLE, State.PREPARING_REBALANCE):
            self._rebalance.renew_session_deadline(group, member, now_ms)

    # ---- leaving

    def leave(self, command: LeaveGroup, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        group = self._groups.classic(command.group_id)
        if not command.group_id:
            result.responses.append((token, LeaveResponse(ErrorCode.invalid_group_id)))
        elif group is None:
            unknown = ErrorCode.unknown_member_id
            left = tuple(LeftMember(member.member_id, member.instance_id, unknown) for member in command.members)
            result.responses.append((token, LeaveResponse(ErrorCode.none, left)))
        elif group.state is State.DEAD:
            result.responses.append((token, LeaveResponse(ErrorCode.coordinator_not_available)))
        else:
            response = LeaveResponse(ErrorCode.none, self._leave(group, command, now_ms, result))
            result.responses_after_commit.append((token, response))
        return result

    def _leave(
        self, group: ClassicGroup, command: LeaveGroup, now_ms: int, result: CoordinatorResult
    ) -> tuple[LeftMember, ...]:
        left = tuple(
            LeftMember(member.member_id, member.instance_id, self._leave_one(group, member, result))
            for member in command.members
        )
        removed = [member.member_id for member in left if member.error is ErrorCode.none]
        if removed and group.state is not State.EMPTY:
            cause = f"explicit `LeaveGroup` request for ({', '.join(removed)}) members."
            self._rebalance.prepare_or_complete(group, cause, now_ms, result)
        return left

    def _leave_one(self, group: ClassicGroup, leaving: LeavingMember, result: CoordinatorResult) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER_ID:
            # An admin removes a static member by its instance id.
            if leaving.instance_id is None or leaving.instance_id not in group.static_members:
                return ErrorCode.unknown_member_id
            member_id = group.static_members[leaving.instance_id]
        elif member_id in group.pending_join:
            group.remove(member_id)
            self._groups.deadlines.cancel((SESSION, group.group_id, member_id))
            return ErrorCode.none
        else:
            error = group.check_member(member_id, leaving.instance_id)
            if error is not ErrorCode.none:
                return error
        self._rebalance.remove(group, group.members[member_id], result)
        return ErrorCode.none

    # ---- events of the runtime

    def deadline(self, key: DeadlineKey, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        kind, group_id, member_id = key
        group = self._groups.classic(group_id)
        if group is None or group.state is State.DEAD:
            return result
        if kind == SESSION:
            self._rebalance.session_deadline(group, member_id, now_ms, result)
        elif kind == JOIN:
            self._rebalance.join_deadline(group, now_ms, result)
        else:
            self._rebalance.sync_deadline(group, now_ms, result)
        return result

    def on_written(
        self, written: AssignmentWritten | StaticMemberWritten, error: ErrorCode, now_ms: int
    ) -> CoordinatorResult:
        result = CoordinatorResult()
        if isinstance(written, StaticMemberWritten):
            self._join_handler.on_static_member_written(written, error, now_ms, result)
        else:
            self._on_assignment_written(written, error, now_ms, result)
        return result

    def _on_assignment_written(
        self, written: AssignmentWritten, error: ErrorCode, now_ms: int, result: CoordinatorResult
    ) -> None:
        group = self._groups.classic(written.group_id)
        if (
            group is None
            or group.state is not State.COMPLETING_REBALANCE
            or group.generation_id != written.generation_id
        ):
            return
        if error is ErrorCode.none:
            self._rebalance.apply_assignment(group, written.assignment, now_ms, result)
            return
        rejection = coordinator_error(error)
        self._rebalance.reset_assignment(group, rejection, now_ms, result)
        cause = f"Error {rejection.name.upper()} when storing group assignment (member: {written.leader_id})."
        self._rebalance.prepare(group, cause, now_ms, result)

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult]:
        """Every member gets a full session timeout to reach the new coordinator."""
        results = []
        for group in self._groups.all_classic():
            for member in group.members.values():
                self._rebalance.renew_session_deadline(group, member, now_ms)
            if len(group.members) > self._size_max:
                result = CoordinatorResult()
                cause = f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over capacity"
                self._rebalance.prepare(group, cause, now_ms, result)
                results.append(result)
        return results

    def on_unloaded(self, now_ms: int) -> CoordinatorResult:
        """Completes pending responses with NOT_COORDINATOR, so that clients find the new coordinator."""
        result = CoordinatorResult()
        for group in self._groups.all_classic():
            group.transition_to(State.DEAD, now_ms)
            for member in group.members.values():
                rejection = JoinResponse(ErrorCode.not_coordinator, member.member_id)
                self._rebalance.respond_to_join(member, rejection, result)
                self._rebalance.respond_to_sync(member, SyncResponse(ErrorCode.not_coordinator), result)
        return result


def _check_sync(group: ClassicGroup | None, command: SyncGroup) -> ErrorCode:
    if not command.group_id:
        return ErrorCode.invalid_group_id
    if group is None or group.state is State.EMPTY:
        return ErrorCode.unknown_member_id
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    error = group.check_member(command.member_id, command.instance_id)
    if error is not ErrorCode.none:
        return error
    if command.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    if _differ(command.protocol_type, group.protocol_type) or _differ(command.protocol_name, group.protocol_name):
        return ErrorCode.inconsistent_group_protocol
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _differ(requested: str | None, known: str | None) -> bool:
    return requested is not None and known is not None and requested != known
