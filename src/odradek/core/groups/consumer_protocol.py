"""The consumer protocol (KIP-848): members only send heartbeats.

A heartbeat has the subscription and the owned partitions of a member, and its response has the assigned partitions. It
is handled in three steps, which usually change nothing:
1. The member is updated. If its subscription or its topics have changed, the group epoch is incremented.
2. If the group epoch is newer than the assignment epoch, the coordinator computes a new target assignment.
3. The member is reconciled with its target assignment (`consumer_reconciliation`).
"""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.classic_group import State
from odradek.core.groups.classic_records import tombstone_of
from odradek.core.groups.commands import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    NO_TIMEOUT,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    TopicIdPartitions,
)
from odradek.core.groups.consumer_deadlines import ConsumerDeadlines
from odradek.core.groups.consumer_fencing import LEFT, ConsumerFencing
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember, Partitions
from odradek.core.groups.consumer_membership import (
    check_instance,
    check_room,
    check_static,
    new_member_id,
    replace_static,
)
from odradek.core.groups.consumer_migration import Migration
from odradek.core.groups.consumer_progress import ConsumerProgress
from odradek.core.groups.consumer_requests import check_epoch, check_heartbeat
from odradek.core.groups.coordinator_result import CoordinatorResult, Token
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.groups import Groups
from odradek.core.groups.settings import GroupSettings


class ConsumerProtocol:
    def __init__(
        self,
        groups: Groups,
        settings: GroupSettings,
        configs: GroupConfigs,
        progress: ConsumerProgress,
        fencing: ConsumerFencing,
        migration: Migration,
        deadlines: ConsumerDeadlines,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._configs = configs
        self._progress = progress
        self._fencing = fencing
        self._migration = migration
        self._deadlines = deadlines
        self._new_uuid = new_uuid

    def heartbeat(self, command: ConsumerGroupHeartbeat, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        try:
            check_heartbeat(command, self._settings.consumer_assignors)
            if command.member_epoch in (LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH):
                response = self._leave(command, now_ms, result)
            else:
                response = self._beat(command, now_ms, result)
        except KafkaError as rejection:
            result.records.clear()
            result.responses.append((token, ConsumerGroupHeartbeatResponse(rejection.code, rejection.message)))
            return result
        result.responses_after_commit.append((token, response))
        return result

    # ---- joins and heartbeats

    def _beat(
        self, command: ConsumerGroupHeartbeat, now_ms: int, result: CoordinatorResult
    ) -> ConsumerGroupHeartbeatResponse:
        group = self._group(command, now_ms, result)
        check_room(group, command.member_id, self._settings.consumer_group_max_size)
        member_id = command.member_id or new_member_id(self._new_uuid)
        member = self._member(group, command, member_id, result)
        updated = _updated_member(command, member)
        reached = self._progress.update_member(group, member, updated, command.owned, command.access, now_ms, result)
        if group is not self._groups.get(group.group_id):
            self._groups.expect(group)
        self._deadlines.renew_session_deadline(group.group_id, member_id, now_ms)
        return ConsumerGroupHeartbeatResponse(
            ErrorCode.none,
            None,
            member_id,
            reached.epoch,
            self._configs.heartbeat_interval_ms(group.group_id),
            _assignment(reached.assigned) if _should_send_assignment(command, member, reached) else None,
        )

    def _group(self, command: ConsumerGroupHeartbeat, now_ms: int, result: CoordinatorResult) -> ConsumerGroup:
        group = self._groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if command.member_epoch != JOINING_EPOCH:
            why = "Consumer group {} not found." if group is None else "Group {} is not a consumer group."
            raise KafkaError(ErrorCode.group_id_not_found, why.format(command.group_id))
        if group is None:
            return ConsumerGroup(command.group_id)
        if group.state is State.EMPTY:
            result.records.append(tombstone_of(command.group_id))
            return ConsumerGroup(command.group_id)
        return self._migration.upgrade(group, now_ms, result)

    def _member(
        self, group: ConsumerGroup, command: ConsumerGroupHeartbeat, member_id: str, result: CoordinatorResult
    ) -> ConsumerMember:
        is_joining = command.member_epoch == JOINING_EPOCH
        if command.instance_id is None:
            member = group.members.get(member_id) if is_joining else group.member(member_id)
            member = member or ConsumerMember(member_id)
            check_epoch(member, command.member_epoch, command.owned)
            return member
        existing = group.static_member(command.instance_id)
        if not is_joining:
            existing = check_static(existing, command.instance_id)
            check_instance(existing, member_id, command.instance_id)
            check_epoch(existing, command.member_epoch, command.owned)
            return existing
        if existing is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not existing.is_classic and existing.epoch != LEAVING_FOR_A_WHILE_EPOCH:
            raise KafkaError(
                ErrorCode.unreleased_instance_id,
                f"Static member {member_id} with instance id {command.instance_id} cannot join the group because "
                f"the instance id is owned by {existing.member_id} member.",
            )
        return replace_static(group, existing, member_id, result)

    # ---- leaving

    def _leave(
        self, command: ConsumerGroupHeartbeat, now_ms: int, result: CoordinatorResult
    ) -> ConsumerGroupHeartbeatResponse:
        group = self._groups.get(command.group_id)
        if not isinstance(group, ConsumerGroup):
            why = "Group {} not found." if group is None else "Group {} is not a consumer group."
            raise KafkaError(ErrorCode.group_id_not_found, why.format(command.group_id))
        if command.instance_id is None:
            member = group.member(command.member_id)
        else:
            member = check_static(group.static_member(command.instance_id), command.instance_id)
            check_instance(member, command.member_id, command.instance_id)
        if command.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
            self._fencing.leave_for_a_while(group, member, result)
        else:
            self._fencing.fence(group, [member], LEFT, now_ms, result)
        return ConsumerGroupHeartbeatResponse(ErrorCode.none, None, command.member_id, command.member_epoch)


def _updated_member(command: ConsumerGroupHeartbeat, member: ConsumerMember) -> ConsumerMember:
    """Returns the same object if nothing has changed, which is the usual case."""
    names = member.topic_names if command.topic_names is None else frozenset(command.topic_names)
    updated = (
        member.instance_id if command.instance_id is None else command.instance_id,
        member.rack_id if command.rack_id is None else command.rack_id,
        member.rebalance_timeout_ms if command.rebalance_timeout_ms == NO_TIMEOUT else command.rebalance_timeout_ms,
        member.assignor if command.server_assignor is None else command.server_assignor,
        names,
        member.topic_regex if command.topic_regex is None else command.topic_regex,
        command.client_id,
        command.client_host,
        None,
    )
    known = (
        member.instance_id,
        member.rack_id,
        member.rebalance_timeout_ms,
        member.assignor,
        member.topic_names,
        member.topic_regex,
        member.client_id,
        member.client_host,
        member.classic,
    )
    if updated == known:
        return member
    instance_id, rack_id, rebalance_timeout_ms, assignor, topic_names, topic_regex, client_id, client_host, _ = updated
    return replace(
        member,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        assignor=assignor,
        topic_names=topic_names,
        topic_regex=topic_regex,
        client_id=client_id,
        client_host=client_host,
        classic=None,
    )


def _should_send_assignment(command: ConsumerGroupHeartbeat, member: ConsumerMember, reached: ConsumerMember) -> bool:
    """A full heartbeat needs the assignment: the member has just joined, or a response was lost."""
    is_full = (
        command.rebalance_timeout_ms != NO_TIMEOUT
        and (command.topic_names is not None or command.topic_regex is not None)
        and command.owned is not None
    )
    return command.member_epoch == JOINING_EPOCH or is_full or member.assigned != reached.assigned


def _assignment(partitions: Partitions) -> tuple[TopicIdPartitions, ...]:
    return tuple(TopicIdPartitions(topic_id, tuple(sorted(held))) for topic_id, held in partitions.items())
