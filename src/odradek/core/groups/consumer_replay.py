"""Replays the records of consumer groups, while loading and after every append."""

from dataclasses import replace
from uuid import UUID

from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember, MemberState, Partitions
from odradek.core.groups.consumer_subscriptions import ResolvedRegex
from odradek.core.groups.groups import Groups
from odradek.core.groups.hash_order import uuids_in_hash_order
from odradek.core.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    GroupRecord,
)

ConsumerKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
_NO_ASSIGNMENT_EPOCH = -1


def replay_consumer(groups: Groups, key: ConsumerKey, record: GroupRecord) -> None:
    value = record.value
    if value is None:
        group = groups.get(key.group_id)
        # Compaction may keep a tombstone without the record that it deletes.
        if isinstance(group, ConsumerGroup):
            _delete(groups, group, key)
        return
    group = groups.consumer_to_replay(key.group_id)
    match key, value:
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case ConsumerGroupTargetAssignmentMemberKey(), ConsumerGroupTargetAssignmentMemberValue():
            of_topics = {_topic_id_or_zero(one.topic_id): frozenset(one.partitions) for one in value.topic_partitions}
            group.target[key.member_id] = {topic_id: of_topics[topic_id] for topic_id in uuids_in_hash_order(of_topics)}
        case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
            group.put_member(_with_subscription(_member(group, key.member_id), value))
        case ConsumerGroupCurrentMemberAssignmentKey(), ConsumerGroupCurrentMemberAssignmentValue():
            group.put_member(_with_assignment(_member(group, key.member_id), value))
        case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group.put_resolved(key.regular_expression, resolved)
        case ConsumerGroupPartitionMetadataKey(), _:
            group.has_partition_metadata = True


def _delete(groups: Groups, group: ConsumerGroup, key: ConsumerKey) -> None:
    match key:
        case ConsumerGroupMetadataKey():
            groups.remove(group.group_id)
        case ConsumerGroupTargetAssignmentMetadataKey():
            group.assignment_epoch, group.assignment_timestamp_ms = _NO_ASSIGNMENT_EPOCH, 0
        case ConsumerGroupTargetAssignmentMemberKey():
            group.target.pop(key.member_id, None)
        case ConsumerGroupMemberMetadataKey():
            if key.member_id in group.members:
                group.remove_member(key.member_id)
        case ConsumerGroupCurrentMemberAssignmentKey():
            group.leave_all(key.member_id)
        case ConsumerGroupRegularExpressionKey():
            group.put_resolved(key.regular_expression, None)
        case ConsumerGroupPartitionMetadataKey():
            group.has_partition_metadata = False


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)


def _with_subscription(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def _with_assignment(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_partitions(value.assigned_partitions, value.member_epoch),
        revoking=_partitions(value.partitions_pending_revocation, value.member_epoch),
    )


def _partitions(topics: tuple[CurrentPartitions, ...], member_epoch: int) -> Partitions:
    """Records of earlier releases have no assignment epochs; the member epoch is used instead."""
    since = max(member_epoch, 0)
    return {
        _topic_id_or_zero(one.topic_id): dict(zip(one.partitions, one.assignment_epochs, strict=True))
        if one.assignment_epochs is not None and len(one.assignment_epochs) == len(one.partitions)
        else dict.fromkeys(one.partitions, since)
        for one in topics
    }


def _topic_id_or_zero(topic_id: UUID | None) -> UUID:
    return UUID(int=0) if topic_id is None else topic_id
