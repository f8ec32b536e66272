"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

They have no leader and do not wait for each other: a join reconciles a member with the target assignment, and a sync
returns its partitions. A heartbeat response requires it to rejoin when it has to revoke partitions or can get new ones.
"""

from collections.abc import Callable
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.classic_join import MEMBER_ID_REQUIRED_SINCE
from odradek.core.groups.commands import (
    NO_TIMEOUT,
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
    TopicIdPartitions,
)
from odradek.core.groups.consumer_deadlines import ConsumerDeadlines
from odradek.core.groups.consumer_fencing import LEFT, ConsumerFencing
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember, MemberState
from odradek.core.groups.consumer_membership import (
    check_instance,
    check_room,
    check_static,
    new_member_id,
    replace_static,
)
from odradek.core.groups.consumer_migration import Migration, classic_metadata, write_partitions
from odradek.core.groups.consumer_progress import ConsumerProgress
from odradek.core.groups.consumer_reconciliation import TargetAssignment
from odradek.core.groups.coordinator_result import CoordinatorResult, Token
from odradek.core.groups.groups import Groups
from odradek.core.groups.settings import GroupSettings, MigrationPolicy
from odradek.core.groups.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    UnreadableSubscription,
    read_subscription,
    read_version,
)
from odradek.core.groups.topics import Topics
from odradek.core.security.access import Access


class ClassicMembers:
    def __init__(
        self,
        groups: Groups,
        settings: GroupSettings,
        topics: Topics,
        progress: ConsumerProgress,
        fencing: ConsumerFencing,
        migration: Migration,
        deadlines: ConsumerDeadlines,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._topics = topics
        self._progress = progress
        self._fencing = fencing
        self._migration = migration
        self._deadlines = deadlines
        self._new_uuid = new_uuid

    # ---- join

    def join(self, command: JoinGroup, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        group = self._group(command.group_id)
        try:
            response = self._join(group, command, now_ms, result)
        except KafkaError as rejection:
            result.records.clear()
            result.responses.append((token, JoinResponse(rejection.code, UNKNOWN_MEMBER_ID)))
            return result
        (result.responses_after_commit if response.error is ErrorCode.none else result.responses).append(
            (token, response)
        )
        return result

    def _join(self, group: ConsumerGroup, command: JoinGroup, now_ms: int, result: CoordinatorResult) -> JoinResponse:
        if self._settings.consumer_migration_policy is MigrationPolicy.DISABLED:
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        is_unknown = command.member_id == UNKNOWN_MEMBER_ID
        member_id = new_member_id(self._new_uuid) if is_unknown else command.member_id
        check_room(group, member_id, self._settings.consumer_group_max_size)
        names = [protocol.name for protocol in command.protocols]
        if not group.supports_classic(command.protocol_type, names):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        if is_unknown and command.instance_id is None and command.version >= MEMBER_ID_REQUIRED_SINCE:
            return JoinResponse(ErrorCode.member_id_required, member_id)
        replaced = group.static_member(command.instance_id)
        member = self._member(group, command, member_id, result)
        subscription = _subscription(command)
        updated = _updated_member(command, member, subscription)
        if replaced is not None and self._migration.may_downgrade_with(group, replaced):
            reached = self._join_last(group, member, updated, subscription, command.access, now_ms, result)
        else:
            owned = self._to_owned(subscription)
            reached = self._progress.update_member(group, member, updated, owned, command.access, now_ms, result)
            self._deadlines.renew_session_deadline(group.group_id, member_id, now_ms, command.session_timeout_ms)
            self._deadlines.expect_sync(group.group_id, member_id, now_ms, command.rebalance_timeout_ms)
        self._deadlines.end_join(group.group_id, member_id)
        return JoinResponse(
            ErrorCode.none,
            member_id,
            reached.epoch,
            CONSUMER_PROTOCOL_TYPE,
            names[0],
        )

    def _join_last(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        subscription: Subscription,
        access: Access,
        now_ms: int,
        result: CoordinatorResult,
    ) -> ConsumerMember:
        """Replaces the last member that used the consumer protocol: the group becomes a classic group."""
        subscribed = self._progress.subscribe(group, member, updated, access, now_ms, result)
        reached, cause = updated, None
        if group.assignment_epoch < subscribed.epoch:
            cause = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        else:
            target = TargetAssignment(group.assignment_epoch, group.target_of(updated))
            owned = self._to_owned(subscription)
            reached = self._progress.reconcile(group, updated, target, owned, subscribed, now_ms, result)
        self._migration.downgrade(group, now_ms, result, joining=reached, rebalance_cause=cause)
        return reached

    def _member(
        self, group: ConsumerGroup, command: JoinGroup, member_id: str, result: CoordinatorResult
    ) -> ConsumerMember:
        if command.instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        existing = group.static_member(command.instance_id)
        if command.member_id != UNKNOWN_MEMBER_ID:
            existing = check_static(existing, command.instance_id)
            check_instance(existing, member_id, command.instance_id)
            return existing
        return ConsumerMember(member_id) if existing is None else replace_static(group, existing, member_id, result)

    def _to_owned(self, subscription: Subscription) -> tuple[TopicIdPartitions, ...]:
        found = ((self._topics.by_name(name), partitions) for name, partitions in subscription.owned.items())
        return tuple(TopicIdPartitions(topic.id, partitions) for topic, partitions in found if topic is not None)

    # ---- sync

    def sync(self, command: SyncGroup, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        group = self._group(command.group_id)
        try:
            member = _check(group, command.member_id, command.instance_id, command.generation_id)
            assignment = self._sync(group, member, command, now_ms)
        except KafkaError as rejection:
            result.responses.append((token, SyncResponse(rejection.code)))
            return result
        self._deadlines.end_sync(group.group_id, member.member_id)
        self._renew_session_deadline(group, member, now_ms)
        response = SyncResponse(ErrorCode.none, command.protocol_type, command.protocol_name, assignment)
        result.responses_after_commit.append((token, response))
        return result

    def _sync(self, group: ConsumerGroup, member: ConsumerMember, command: SyncGroup, now_ms: int) -> bytes:
        assert member.classic is not None
        protocol = member.classic.supported_protocols[0]
        if command.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or command.protocol_name not in (
            None,
            protocol.name,
        ):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.expect_join(group.group_id, member, now_ms)
            raise KafkaError(ErrorCode.rebalance_in_progress)
        try:
            version = read_version(protocol.metadata)
        except UnreadableSubscription as error:
            # The group was upgraded with the metadata of another protocol.
            raise KafkaError(ErrorCode.unknown_server_error) from error
        return write_partitions(self._topics, member.assigned, version)

    # ---- heartbeats

    def heartbeat(self, command: Heartbeat, token: Token, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        group = self._group(command.group_id)
        try:
            member = _check(group, command.member_id, command.instance_id, command.generation_id)
        except KafkaError as rejection:
            result.responses.append((token, HeartbeatResponse(rejection.code)))
            return result
        self._renew_session_deadline(group, member, now_ms)
        error = ErrorCode.none
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting_for_others(member))
        ):
            error = ErrorCode.rebalance_in_progress
            self._deadlines.expect_join(group.group_id, member, now_ms)
        result.responses_after_commit.append((token, HeartbeatResponse(error)))
        return result

    def _renew_session_deadline(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        self._deadlines.renew_session_deadline(group.group_id, member.member_id, now_ms, member.session_timeout_ms)

    # ---- leaving

    def leave(self, command: LeaveGroup, token: Token, now_ms: int) -> CoordinatorResult:
        """Removes members of either protocol, also for an admin."""
        result = CoordinatorResult()
        group = self._group(command.group_id)
        removed: dict[str, ConsumerMember] = {}
        left = []
        for one in command.members:
            error = ErrorCode.none
            try:
                member = _find_leaving(group, one)
                removed[member.member_id] = member
            except KafkaError as rejection:
                error = rejection.code
            left.append(LeftMember(one.member_id, one.instance_id, error))
        self._fencing.fence(group, list(removed.values()), LEFT, now_ms, result)
        result.responses_after_commit.append((token, LeaveResponse(ErrorCode.none, tuple(left))))
        return result

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._groups.consumer(group_id)
        assert group is not None
        return group


def _subscription(command: JoinGroup) -> Subscription:
    try:
        return read_subscription(command.protocols[0].metadata)
    except UnreadableSubscription as error:
        raise KafkaError(ErrorCode.unknown_server_error) from error


def _updated_member(command: JoinGroup, member: ConsumerMember, subscription: Subscription) -> ConsumerMember:
    timeout_ms = command.rebalance_timeout_ms
    return ConsumerMember(
        member.member_id,
        member.epoch,
        member.previous_epoch,
        member.state,
        instance_id=member.instance_id if command.instance_id is None else command.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        client_id=command.client_id,
        client_host=command.client_host,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        assignor=member.assignor,
        assigned=member.assigned,
        revoking=member.revoking,
        classic=classic_metadata(command.session_timeout_ms, command.protocols),
    )


def _check(group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int) -> ConsumerMember:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_static(group.static_member(instance_id), instance_id)
        check_instance(member, member_id, instance_id)
    if not member.is_classic:
        raise KafkaError(ErrorCode.unknown_member_id, f"Member {member_id} does not use the classic protocol.")
    if generation_id != member.epoch:
        raise KafkaError(ErrorCode.illegal_generation)
    return member


def _find_leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    if leaving.instance_id is None:
        return group.member(leaving.member_id)
    member = check_static(group.static_member(leaving.instance_id), leaving.instance_id)
    if leaving.member_id != UNKNOWN_MEMBER_ID:
        check_instance(member, leaving.member_id, leaving.instance_id)
    return member
