"""How a classic group comes from one generation to the next.

Everybody is waited for until all have joined or the longest rebalance timeout is over; who has not joined by then is
result, unless it is a static member, whose session is waited for. The first rebalance of a group also waits a while for
others to come. Then the leader's assignment is waited for, as long again.
"""

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.classic_member import EMPTY_ASSIGNMENT, ClassicMember
from odradek.core.groups.classic_records import record_of
from odradek.core.groups.commands import UNKNOWN_MEMBER_ID, JoinResponse, SyncResponse
from odradek.core.groups.coordinator_result import CoordinatorResult
from odradek.core.groups.groups import JOIN, SESSION, SYNC, Groups
from odradek.core.groups.rebalances import Rebalance
from odradek.core.groups.settings import GroupSettings


class ClassicRebalance:
    def __init__(self, groups: Groups, settings: GroupSettings) -> None:
        self._groups = groups
        self._deadlines = groups.deadlines
        self._settings = settings

    # ---- towards a rebalance

    def prepare_or_complete(self, group: ClassicGroup, cause: str, now_ms: int, result: CoordinatorResult) -> None:
        if group.can_rebalance:
            self.prepare(group, cause, now_ms, result)
        else:
            self.complete_if_all_joined(group, now_ms, result)

    def prepare(self, group: ClassicGroup, cause: str, now_ms: int, result: CoordinatorResult) -> None:
        if group.state is State.COMPLETING_REBALANCE:
            self.reset_assignment(group, ErrorCode.rebalance_in_progress, now_ms, result)
        group.pending_sync.clear()
        self._deadlines.cancel((SYNC, group.group_id, ""))
        is_first = group.state is State.EMPTY
        if is_first:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.initial_delay = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            self._deadlines.set((JOIN, group.group_id, ""), now_ms + delay_ms)
        group.move_to(State.PREPARING_REBALANCE, now_ms)
        group.rebalances.append(Rebalance(cause, now_ms))
        if not is_first:
            if group.all_have_joined:
                self.complete_join(group, now_ms, result)
            else:
                self._wait_for_joins(group, now_ms)

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int, result: CoordinatorResult) -> None:
        """Except in the first rebalance, which waits for whoever may still come."""
        if (
            group.state is State.PREPARING_REBALANCE
            and group.previous_state is not State.EMPTY
            and group.all_have_joined
        ):
            self.complete_join(group, now_ms, result)

    def _wait_for_joins(self, group: ClassicGroup, now_ms: int) -> None:
        group.initial_delay = None
        self._deadlines.set((JOIN, group.group_id, ""), now_ms + group.rebalance_timeout_ms)

    # ---- the next generation

    def join_deadline(self, group: ClassicGroup, now_ms: int, result: CoordinatorResult) -> None:
        if group.state is not State.PREPARING_REBALANCE:
            # Set for a group of the same name, which became a consumer group meanwhile.
            return
        if group.initial_delay is not None:
            delay_ms, remaining_ms = group.initial_delay
            if group.new_member_added and remaining_ms != 0:
                group.new_member_added = False
                next_delay_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
                group.initial_delay = (next_delay_ms, max(remaining_ms - delay_ms, 0))
                self._deadlines.set((JOIN, group.group_id, ""), now_ms + next_delay_ms)
                return
        self.complete_join(group, now_ms, result)

    def complete_join(self, group: ClassicGroup, now_ms: int, result: CoordinatorResult) -> None:
        group.initial_delay = None
        self._deadlines.cancel((JOIN, group.group_id, ""))
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                self._forget(group, member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Static members only, and none of them is back: they are waited for until their sessions are over.
            self._wait_for_joins(group, now_ms)
            return
        group.begin_next_generation(now_ms)
        if group.state is State.EMPTY:
            group.rebalances[-1].ended_ms = now_ms
            result.write_classic_group(record_of(group, {}))
            return
        for member in group.members.values():
            self.respond_to_join(member, self.join_response(group, member.member_id), result)
            self.keep_alive(group, member, now_ms)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._deadlines.set((SYNC, group.group_id, ""), now_ms + group.rebalance_timeout_ms)

    def sync_deadline(self, group: ClassicGroup, now_ms: int, result: CoordinatorResult) -> None:
        """Who has not asked for its assignment by now is result."""
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
            return
        silent = sorted(group.pending_sync)
        for member_id in silent:
            self._forget(group, member_id)
        self.prepare(group, f"Removing {', '.join(silent)} on pending sync request expiration", now_ms, result)

    # ---- responses

    def join_response(self, group: ClassicGroup, member_id: str) -> JoinResponse:
        return JoinResponse(
            ErrorCode.none,
            member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            members=group.members_for_leader() if group.is_leader(member_id) else (),
        )

    def respond_to_join(self, member: ClassicMember, response: JoinResponse, result: CoordinatorResult) -> None:
        if member.awaiting_join is not None:
            result.responses.append((member.awaiting_join, response))
            member.awaiting_join = None

    def respond_to_sync(self, member: ClassicMember, response: SyncResponse, result: CoordinatorResult) -> bool:
        if member.awaiting_sync is None:
            return False
        result.responses.append((member.awaiting_sync, response))
        member.awaiting_sync = None
        return True

    def reset_assignment(self, group: ClassicGroup, error: ErrorCode, now_ms: int, result: CoordinatorResult) -> None:
        for member in group.members.values():
            member.assignment = EMPTY_ASSIGNMENT
            if self.respond_to_sync(member, SyncResponse(error), result):
                self.keep_alive(group, member, now_ms)

    def settle(self, group: ClassicGroup, assignment: dict[str, bytes], now_ms: int, result: CoordinatorResult) -> None:
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, EMPTY_ASSIGNMENT)
            response = SyncResponse(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment)
            if self.respond_to_sync(member, response, result):
                self.keep_alive(group, member, now_ms)
        group.move_to(State.STABLE, now_ms)
        if group.rebalances:
            group.rebalances[-1].ended_ms = now_ms

    # ---- members that come and go

    def keep_alive(
        self, group: ClassicGroup, member: ClassicMember, now_ms: int, timeout_ms: int | None = None
    ) -> None:
        wait_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self._deadlines.set((SESSION, group.group_id, member.member_id), now_ms + wait_ms)

    def session_deadline(self, group: ClassicGroup, member_id: str, now_ms: int, result: CoordinatorResult) -> None:
        if member_id in group.pending_join:
            group.remove(member_id)
            if group.state is State.PREPARING_REBALANCE and group.all_have_joined:
                self.complete_join(group, now_ms, result)
            return
        member = group.members.get(member_id)
        if member is None or member.is_heard_of:
            return
        self.remove(group, member, result)
        cause = f"removing member {member_id} on heartbeat expiration."
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(group, cause, now_ms, result)
        elif group.state is State.PREPARING_REBALANCE and group.all_have_joined:
            self.complete_join(group, now_ms, result)

    def remove(self, group: ClassicGroup, member: ClassicMember, result: CoordinatorResult) -> None:
        """Who waits for the end of a rebalance hears that it is none of his any more."""
        self.respond_to_join(member, JoinResponse(ErrorCode.unknown_member_id, UNKNOWN_MEMBER_ID), result)
        self.respond_to_sync(member, SyncResponse(ErrorCode.unknown_member_id), result)
        self._forget(group, member.member_id)

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self._deadlines.cancel((SESSION, group.group_id, member_id))
