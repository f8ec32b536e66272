"""Converts a classic group to its record and back."""

from typing import Final

from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.classic_member import ClassicMember
from odradek.core.groups.commands import NO_TIMESTAMP, MemberProtocol
from odradek.core.groups.records import GroupMetadataKey, GroupMetadataValue, GroupRecord, MemberMetadata
from odradek.core.groups.records.classic import NO_TIMEOUT

GROUP_VALUE_VERSION: Final = 3
"""The version that Kafka 4.3 writes, although it reads 4."""


def record_of(group: ClassicGroup, assignment: dict[str, bytes]) -> GroupRecord:
    """`assignment` by member id: the group has it only after the record is committed."""
    protocol_name = group.protocol_name
    members = tuple(
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=b"" if protocol_name is None else member.metadata(protocol_name),
            assignment=assignment[member.member_id],
        )
        for member in group.members.values()
    )
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol_name,
        leader=group.leader_id,
        current_state_timestamp=_timestamp(group),
        members=members,
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value, GROUP_VALUE_VERSION)


def record_of_new(group: ClassicGroup) -> GroupRecord:
    """Before its first generation, the record of a group has no members."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=_timestamp(group),
        members=(),
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value, GROUP_VALUE_VERSION)


def tombstone_of(group_id: str) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def group_from(group_id: str, value: GroupMetadataValue, now_ms: int) -> ClassicGroup:
    group = ClassicGroup(
        group_id,
        now_ms,
        protocol_type=value.protocol_type or None,
        state=State.STABLE if value.members else State.EMPTY,
    )
    group.generation_id = value.generation
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    group.state_timestamp_ms = None if value.current_state_timestamp == NO_TIMESTAMP else value.current_state_timestamp
    for member in value.members:
        rebalance_timeout = member.rebalance_timeout
        group.add(
            ClassicMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout if rebalance_timeout == NO_TIMEOUT else rebalance_timeout,
                member.session_timeout,
                value.protocol_type,
                (MemberProtocol(value.protocol or "", member.subscription),),
                member.assignment,
            )
        )
    group.learn_subscriptions()
    return group


def _timestamp(group: ClassicGroup) -> int:
    return NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms
