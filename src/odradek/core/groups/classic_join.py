"""JoinGroup of classic groups: new members, rejoining members, and static members that return."""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.core.append_errors import coordinator_error
from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.classic_member import ClassicMember
from odradek.core.groups.classic_rebalance import ClassicRebalance
from odradek.core.groups.classic_records import record_of, record_of_new
from odradek.core.groups.commands import UNKNOWN_MEMBER_ID, JoinGroup, JoinResponse, SyncResponse
from odradek.core.groups.consumer_records import group_tombstones
from odradek.core.groups.coordinator_result import CoordinatorResult, StaticMemberWritten, Token
from odradek.core.groups.groups import SESSION, Groups
from odradek.core.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings

MEMBER_ID_REQUIRED_SINCE: Final = 4
"""Since this version a client joins with the id that its first join returned."""
SKIP_ASSIGNMENT_SINCE: Final = 9
"""Since this version the response can instruct the leader to keep the assignment."""


class ClassicJoin:
    def __init__(
        self, groups: Groups, settings: GroupSettings, rebalance: ClassicRebalance, new_uuid: Callable[[], UUID]
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._rebalance = rebalance
        self._new_uuid = new_uuid

    def join(self, command: JoinGroup, token: Token, now_ms: int, result: CoordinatorResult) -> None:
        is_unknown = command.member_id == UNKNOWN_MEMBER_ID
        group = self._groups.classic(command.group_id)
        is_new_group = group is None
        former = self._groups.consumer(command.group_id)
        tombstones = [] if former is None else group_tombstones(former)
        if group is None:
            if not is_unknown:
                _reject(token, command.member_id, ErrorCode.unknown_member_id, result)
                return
            group = self._groups.get_or_create(command.group_id, now_ms)
        if not self._has_room(group, command.member_id):
            group.remove(command.member_id)
            _reject(token, UNKNOWN_MEMBER_ID, ErrorCode.group_max_size_reached, result)
        elif group.state is State.DEAD:
            _reject(token, command.member_id, ErrorCode.coordinator_not_available, result)
        elif not group.supports(command.protocol_type, {protocol.name for protocol in command.protocols}):
            _reject(token, command.member_id, ErrorCode.inconsistent_group_protocol, result)
        elif is_unknown:
            self._join_unknown(group, command, token, now_ms, result)
        elif command.member_id in group.pending_join:
            self._add(group, command, command.member_id, token, now_ms, result)
        else:
            self._join_again(group, command, token, now_ms, result)
        if is_new_group and not result.records:
            result.write_classic_group(record_of_new(group), after=tombstones)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """During a rebalance only joined members count, so that the first to rejoin stay."""
        most = self._settings.classic_group_max_size
        member = group.members.get(member_id)
        match group.state:
            case State.PREPARING_REBALANCE:
                return (member is not None and member.awaiting_join is not None) or group.joined_count < most
            case State.COMPLETING_REBALANCE | State.STABLE:
                return member is not None or len(group.members) < most
        return True

    # ---- without a member id

    def _join_unknown(
        self, group: ClassicGroup, command: JoinGroup, token: Token, now_ms: int, result: CoordinatorResult
    ) -> None:
        id_prefix = command.client_id if command.instance_id is None else command.instance_id
        new_id = f"{id_prefix}-{self._new_uuid()}"
        if command.instance_id is not None:
            existing_id = group.static_members.get(command.instance_id)
            if existing_id is not None:
                self._replace_static(group, command, existing_id, new_id, token, now_ms, result)
            else:
                self._add(group, command, new_id, token, now_ms, result)
        elif command.version >= MEMBER_ID_REQUIRED_SINCE:
            group.pending_join.add(new_id)
            self._groups.deadlines.set((SESSION, group.group_id, new_id), now_ms + command.session_timeout_ms)
            _reject(token, new_id, ErrorCode.member_id_required, result)
        else:
            self._add(group, command, new_id, token, now_ms, result)

    def _add(
        self,
        group: ClassicGroup,
        command: JoinGroup,
        member_id: str,
        token: Token,
        now_ms: int,
        result: CoordinatorResult,
    ) -> None:
        member = ClassicMember(
            member_id,
            command.instance_id,
            command.client_id,
            command.client_host,
            command.rebalance_timeout_ms,
            command.session_timeout_ms,
            command.protocol_type,
            command.protocols,
            awaiting_join=token,
            is_new=True,
        )
        assert member_id not in group.members, f"member {member_id} joins {group.group_id} twice"
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.new_member_added = True
        group.add(member)
        self._rebalance.renew_session_deadline(group, member, now_ms, NEW_MEMBER_JOIN_TIMEOUT_MS)
        cause = f"Adding new member {member_id} with group instance id {command.instance_id}; {_reason(command)}"
        self._rebalance.prepare_or_complete(group, cause, now_ms, result)

    # ---- with a member id

    def _join_again(
        self, group: ClassicGroup, command: JoinGroup, token: Token, now_ms: int, result: CoordinatorResult
    ) -> None:
        error = group.check_member(command.member_id, command.instance_id)
        if error is not ErrorCode.none:
            result.responses.append((token, JoinResponse(error, command.member_id, protocol_name=None)))
            return
        member = group.members[command.member_id]
        match group.state:
            case State.PREPARING_REBALANCE:
                cause = f"Member {member.member_id} is joining group during {group.state.value}"
            case State.STABLE if group.is_leader(member.member_id):
                # The leader has detected a change that requires a new assignment.
                cause = f"Leader {member.member_id} re-joining group during {group.state.value}"
            case State.COMPLETING_REBALANCE | State.STABLE if member.protocols == command.protocols:
                # Nothing has changed: the response to its join may have been lost.
                result.responses.append((token, self._rebalance.join_response(group, member.member_id)))
                return
            case State.COMPLETING_REBALANCE | State.STABLE:
                cause = f"Updating metadata for member {member.member_id} during {group.state.value}"
            case _:
                _reject(token, command.member_id, ErrorCode.unknown_member_id, result)
                return
        self._update(group, member, command, token, result)
        self._rebalance.prepare_or_complete(group, f"{cause}; {_reason(command)}", now_ms, result)

    def _update(
        self, group: ClassicGroup, member: ClassicMember, command: JoinGroup, token: Token, result: CoordinatorResult
    ) -> None:
        group.update(member, command.protocols, command.rebalance_timeout_ms, command.session_timeout_ms)
        # Completes an earlier join of the same member, which Kafka would never complete.
        self._rebalance.respond_to_join(
            member, JoinResponse(ErrorCode.rebalance_in_progress, member.member_id, protocol_name=None), result
        )
        member.awaiting_join = token

    # ---- static members that return

    def _replace_static(
        self,
        group: ClassicGroup,
        command: JoinGroup,
        old_id: str,
        new_id: str,
        token: Token,
        now_ms: int,
        result: CoordinatorResult,
    ) -> None:
        assert command.instance_id is not None
        former_leader = group.leader_id or ""
        fenced = group.members[old_id]
        self._rebalance.respond_to_join(
            fenced, JoinResponse(ErrorCode.fenced_instance_id, old_id, protocol_name=None), result
        )
        self._rebalance.respond_to_sync(fenced, SyncResponse(ErrorCode.fenced_instance_id), result)
        member = group.rename_static(command.instance_id, old_id, new_id)
        self._rebalance.renew_session_deadline(group, member, now_ms)
        self._update(group, member, command, token, result)
        reason = _reason(command)
        match group.state:
            case State.STABLE if group.select_protocol() == group.protocol_name:
                assignment = {one.member_id: one.assignment for one in group.members.values()}
                result.write_classic_group(
                    record_of(group, assignment),
                    StaticMemberWritten(
                        group.group_id, command.instance_id, old_id, new_id, former_leader, command.version
                    ),
                )
            case State.STABLE:
                cause = f"Group's selectedProtocol will change because static member {new_id} rejoined; {reason}"
                self._rebalance.prepare(group, cause, now_ms, result)
            case State.COMPLETING_REBALANCE:
                cause = f"Updating metadata for static member {new_id} with instance id {command.instance_id}; {reason}"
                self._rebalance.prepare(group, cause, now_ms, result)
            case _:
                self._rebalance.complete_if_all_joined(group, now_ms, result)

    def on_static_member_written(
        self, written: StaticMemberWritten, error: ErrorCode, now_ms: int, result: CoordinatorResult
    ) -> None:
        group = self._groups.classic(written.group_id)
        member = None if group is None else group.members.get(written.new_member_id)
        if group is None or member is None or member.awaiting_join is None or group.state is not State.STABLE:
            # A rebalance that has started meanwhile completes the join.
            return
        response = self._rebalance.join_response(group, written.new_member_id)
        if error is not ErrorCode.none:
            response = response._replace(
                error=coordinator_error(error), member_id=UNKNOWN_MEMBER_ID, leader=written.former_leader, members=()
            )
            self._rebalance.respond_to_join(member, response, result)
            # The log still has the former id, which has to be valid after a failover.
            restored = group.rename_static(written.instance_id, written.new_member_id, written.old_member_id)
            self._rebalance.renew_session_deadline(group, restored, now_ms)
            return
        if written.join_version >= SKIP_ASSIGNMENT_SINCE:
            response = response._replace(skip_assignment=group.is_leader(written.new_member_id))
        else:
            # The response must not name this member as the leader, or it would compute a new assignment.
            response = response._replace(leader=written.former_leader, members=())
        self._rebalance.respond_to_join(member, response, result)


def _reason(command: JoinGroup) -> str:
    return f"client reason: {command.reason or 'not provided'}"


def _reject(token: Token, member_id: str, error: ErrorCode, result: CoordinatorResult) -> None:
    result.responses.append((token, JoinResponse(error, member_id)))
