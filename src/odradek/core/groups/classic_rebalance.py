"""The rebalance of a classic group: from one generation to the next.

The group waits until all members have joined, or until the largest rebalance timeout. Then it removes members that have
not joined, except static members, which stay until their sessions expire. The initial rebalance of a group also waits
for more members. Then the group waits for the leader's assignment, for the same timeout.
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

    # ---- start

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
        group.transition_to(State.PREPARING_REBALANCE, now_ms)
        group.rebalances.append(Rebalance(cause, now_ms))
        if not is_first:
            if group.all_have_joined:
                self.complete_join(group, now_ms, result)
            else:
                self._wait_for_joins(group, now_ms)

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int, result: CoordinatorResult) -> None:
        """Except in the initial rebalance, which waits for more members."""
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
            # Set for a group with the same id that has become a consumer group.
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
            # Only static members, and none of them has rejoined: wait until their sessions expire.
            self._wait_for_joins(group, now_ms)
            return
        group.start_next_generation(now_ms)
        if group.state is State.EMPTY:
            group.rebalances[-1].ended_ms = now_ms
            result.write_classic_group(record_of(group, {}))
            return
        for member in group.members.values():
            self.respond_to_join(member, self.join_response(group, member.member_id), result)
            self.renew_session_deadline(group, member, now_ms)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._deadlines.set((SYNC, group.group_id, ""), now_ms + group.rebalance_timeout_ms)

    def sync_deadline(self, group: ClassicGroup, now_ms: int, result: CoordinatorResult) -> None:
        """Removes members that have not sent SyncGroup in time."""
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
            return
        expired = sorted(group.pending_sync)
        for member_id in expired:
            self._forget(group, member_id)
        self.prepare(group, f"Removing {', '.join(expired)} on pending sync request expiration", now_ms, result)

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
                self.renew_session_deadline(group, member, now_ms)

    def apply_assignment(
        self, group: ClassicGroup, assignment: dict[str, bytes], now_ms: int, result: CoordinatorResult
    ) -> None:
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, EMPTY_ASSIGNMENT)
            response = SyncResponse(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment)
            if self.respond_to_sync(member, response, result):
                self.renew_session_deadline(group, member, now_ms)
        group.transition_to(State.STABLE, now_ms)
        if group.rebalances:
            group.rebalances[-1].ended_ms = now_ms

    # ---- sessions and removal

    def renew_session_deadline(
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
        if member is None or member.is_waiting_for_response:
            return
        self.remove(group, member, result)
        cause = f"removing member {member_id} on heartbeat expiration."
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(group, cause, now_ms, result)
        elif group.state is State.PREPARING_REBALANCE and group.all_have_joined:
            self.complete_join(group, now_ms, result)

    def remove(self, group: ClassicGroup, member: ClassicMember, result: CoordinatorResult) -> None:
        """Completes its pending responses with UNKNOWN_MEMBER_ID."""
        self.respond_to_join(member, JoinResponse(ErrorCode.unknown_member_id, UNKNOWN_MEMBER_ID), result)
        self.respond_to_sync(member, SyncResponse(ErrorCode.unknown_member_id), result)
        self._forget(group, member.member_id)

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self._deadlines.cancel((SESSION, group.group_id, member_id))
