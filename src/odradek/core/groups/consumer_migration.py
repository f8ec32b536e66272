"""Online migration of groups between the classic and the consumer protocol.

A classic group is upgraded when the first member with the consumer protocol joins, and downgraded when the last one
leaves. Meanwhile it has members of both protocols. Members keep their assigned partitions.
"""

from collections.abc import Collection
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.classic_member import EMPTY_ASSIGNMENT, ClassicMember
from odradek.core.groups.classic_rebalance import ClassicRebalance
from odradek.core.groups.classic_records import record_of, tombstone_of
from odradek.core.groups.commands import JoinResponse, MemberProtocol, SyncResponse
from odradek.core.groups.consumer_deadlines import ConsumerDeadlines
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember
from odradek.core.groups.consumer_reconciliation import Target
from odradek.core.groups.consumer_records import group_records, group_tombstones
from odradek.core.groups.coordinator_result import CoordinatorResult, GroupConverted
from odradek.core.groups.groups import Groups
from odradek.core.groups.hash_order import uuids_in_hash_order
from odradek.core.groups.records import ClassicMemberMetadata, ClassicProtocol
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    UnreadableSubscription,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from odradek.core.groups.topics import TopicHashes, Topics


class Migration:
    def __init__(
        self,
        groups: Groups,
        settings: GroupSettings,
        topics: Topics,
        hashes: TopicHashes,
        rebalance: ClassicRebalance,
        deadlines: ConsumerDeadlines,
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._topics = topics
        self._hashes = hashes
        self._rebalance = rebalance
        self._deadlines = deadlines

    # ---- from classic to consumer

    def upgrade(self, group: ClassicGroup, now_ms: int, result: CoordinatorResult) -> ConsumerGroup:
        """The group after the replay of its records, which are added to `result`."""
        self._check_upgrade(group)
        # The new member requires another assignment anyway, for which the waiting members rejoin.
        for member in group.members.values():
            rejection = JoinResponse(ErrorCode.rebalance_in_progress, member.member_id)
            self._rebalance.respond_to_join(member, rejection, result)
            self._rebalance.respond_to_sync(member, SyncResponse(ErrorCode.rebalance_in_progress), result)
        try:
            upgraded = self._as_consumer_group(group)
        except UnreadableSubscription as error:
            raise _reject_upgrade(group, "the embedded consumer protocol is malformed.") from error
        result.records.append(tombstone_of(group.group_id))
        result.records += group_records(upgraded)
        for member_id in upgraded.member_ids_in_order():
            timeout_ms = upgraded.members[member_id].session_timeout_ms
            self._deadlines.renew_session_deadline(group.group_id, member_id, now_ms, timeout_ms)
        return upgraded

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if not self._settings.consumer_migration_policy.allows_upgrade:
            raise _reject_upgrade(group, "online upgrade is disabled.")
        if not group.uses_consumer_protocol:
            raise _reject_upgrade(group, "the group does not use the consumer embedded protocol.")
        if len(group.members) > self._settings.consumer_group_max_size:
            raise _reject_upgrade(group, "the group size exceeds the consumer group maximum size.")

    def _as_consumer_group(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.group_id)
        upgraded.epoch = upgraded.assignment_epoch = group.generation_id
        for member in (group.members[member_id] for member_id in group.member_ids_in_order()):
            if group.protocol_name is None or group.protocol_name not in member.protocol_names:
                # A rebalance is in progress. Kafka returns the same error.
                raise KafkaError(ErrorCode.unknown_server_error, "Members have not agreed upon a protocol yet.")
            assigned = self._to_assigned(group, member)
            subscription = read_subscription(member.metadata(group.protocol_name))
            upgraded.target[member.member_id] = assigned
            upgraded.put_member(
                ConsumerMember(
                    member.member_id,
                    group.generation_id,
                    group.generation_id,
                    instance_id=member.instance_id,
                    rack_id=subscription.rack_id or None,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topic_names=frozenset(subscription.topics),
                    assigned={
                        topic_id: dict.fromkeys(partitions, group.generation_id)
                        for topic_id, partitions in assigned.items()
                    },
                    classic=classic_metadata(member.session_timeout_ms, member.protocols),
                )
            )
        upgraded.metadata_hash = self._hashes.of(upgraded.subscriptions.topics())
        return upgraded

    def _to_assigned(self, group: ClassicGroup, member: ClassicMember) -> dict[UUID, frozenset[int]]:
        if member.assignment == EMPTY_ASSIGNMENT:
            return {}
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            # A custom client-side assignor keeps user data that the members need.
            raise _reject_upgrade(
                group,
                "an unsupported custom assignor is in use. "
                "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
            )
        found = ((self._topics.by_name(name), partitions) for name, partitions in assignment.partitions.items())
        return {topic.id: frozenset(partitions) for topic, partitions in found if topic is not None}

    # ---- from consumer to classic

    def may_downgrade_without(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        remaining = len(group.members) - len(leaving)
        remaining_classic = group.classic_member_count - sum(member.is_classic for member in leaving)
        return 0 < remaining == remaining_classic and self._may_have_classic(remaining)

    def may_downgrade_with(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        return (
            not replaced.is_classic
            and group.classic_member_count == len(group.members) - 1
            and self._may_have_classic(len(group.members))
        )

    def _may_have_classic(self, size: int) -> bool:
        return (
            self._settings.consumer_migration_policy.allows_downgrade and size <= self._settings.classic_group_max_size
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        now_ms: int,
        result: CoordinatorResult,
        *,
        leaving: Collection[ConsumerMember] = (),
        joining: ConsumerMember | None = None,
        rebalance_cause: str | None,
    ) -> None:
        """Replaces the group at once, without replay. `joining` replaces the last member with the consumer protocol."""
        replaced = group.static_member(joining.instance_id) if joining is not None else None
        # Those of the member that is replaced have just been written, as of the one that replaces it.
        member_ids = [
            joining.member_id if joining is not None and member is replaced else member.member_id
            for member in group.members.values()
        ]
        try:
            classic = self._as_classic_group(group, leaving, replaced, joining, now_ms)
        except UnreadableSubscription as error:
            message = f"Cannot downgrade the classic group {group.group_id}: {error}."
            raise KafkaError(ErrorCode.group_id_not_found, message) from error
        result.records += group_tombstones(group, member_ids)
        result.records.append(record_of(classic, {one.member_id: one.assignment for one in classic.members.values()}))
        result.replays = False
        result.write_event = GroupConverted(group)
        self._groups.put(classic)
        for one in classic.members.values():
            self._rebalance.renew_session_deadline(classic, one, now_ms)
        if rebalance_cause is not None:
            self._rebalance.prepare(classic, rebalance_cause, now_ms, result)

    def _as_classic_group(
        self,
        group: ConsumerGroup,
        leaving: Collection[ConsumerMember],
        replaced: ConsumerMember | None,
        joining: ConsumerMember | None,
        now_ms: int,
    ) -> ClassicGroup:
        classic = ClassicGroup(group.group_id, now_ms, protocol_type=CONSUMER_PROTOCOL_TYPE, state=State.STABLE)
        classic.generation_id = group.epoch
        members = [group.members[member_id] for member_id in group.member_ids_in_order()]
        staying = [member for member in members if member not in leaving and member is not replaced]
        for member in (*staying, *([] if joining is None else [joining])):
            classic.add(_as_classic_member(member))
        classic.protocol_name = classic.select_protocol()
        classic.learn_subscriptions()
        for one in classic.members.values():
            is_joining = joining is not None and replaced is not None and one.member_id == joining.member_id
            owner = replaced.member_id if is_joining and replaced is not None else one.member_id
            version = read_version(one.metadata(classic.protocol_name))
            one.assignment = write_partitions(self._topics, group.target.get(owner, {}), version)
        return classic


def write_partitions(topics: Topics, partitions: Target, version: int) -> bytes:
    """An assignment as members by the classic protocol read it: topics by their names."""
    found = ((topics.by_id(topic_id), partitions[topic_id]) for topic_id in uuids_in_hash_order(partitions))
    return write_assignment([(topic.name, sorted(each)) for topic, each in found if topic is not None], version)


def classic_metadata(session_timeout_ms: int, protocols: Collection[MemberProtocol]) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=tuple(ClassicProtocol(name=one.name, metadata=one.metadata) for one in protocols),
    )


def _as_classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        CONSUMER_PROTOCOL_TYPE,
        tuple(MemberProtocol(one.name, one.metadata) for one in member.classic.supported_protocols),
    )


def _reject_upgrade(group: ClassicGroup, why: str) -> KafkaError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return KafkaError(ErrorCode.group_id_not_found, message)
