"""The results of DescribeGroups, ConsumerGroupDescribe and ListGroups."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.core.groups.classic_group import ClassicGroup, State
from odradek.core.groups.commands import (
    AssignedTopic,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember
from odradek.core.groups.groups import Group, Groups
from odradek.core.groups.subscription import CONSUMER_PROTOCOL_TYPE
from odradek.core.groups.topics import Topics

NOT_FOUND_SINCE: Final = 6
"""Since this version of DescribeGroups, an unknown group is an error; before, its state is Dead."""
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


def describe_groups(groups: Groups, group_ids: Sequence[str], version: int) -> tuple[DescribedGroup, ...]:
    return tuple(_describe(groups.get(group_id), group_id, version) for group_id in group_ids)


def _describe(group: Group | None, group_id: str, version: int) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        if version < NOT_FOUND_SINCE:
            return DescribedGroup(group_id, ErrorCode.none, None, State.DEAD.value)
        message = _not_a(group, group_id, CLASSIC)
        return DescribedGroup(group_id, ErrorCode.group_id_not_found, message, State.DEAD.value)
    shown = group.protocol_name if group.state is State.STABLE else None
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            b"" if shown is None else member.metadata(shown),
            member.assignment,
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        group_id, ErrorCode.none, None, group.state.value, group.protocol_type or "", shown or "", members
    )


def describe_consumer_groups(
    groups: Groups, group_ids: Sequence[str], topics: Topics, default_assignor: str
) -> tuple[DescribedConsumerGroup, ...]:
    return tuple(_describe_consumer(groups.get(one), one, topics, default_assignor) for one in group_ids)


def _describe_consumer(
    group: Group | None, group_id: str, topics: Topics, default_assignor: str
) -> DescribedConsumerGroup:
    if not isinstance(group, ConsumerGroup):
        message = _not_a(group, group_id, CONSUMER)
        return DescribedConsumerGroup(group_id, ErrorCode.group_id_not_found, message)
    return DescribedConsumerGroup(
        group_id,
        ErrorCode.none,
        None,
        group.state.value,
        group.epoch,
        group.assignment_epoch,
        group.preferred_assignor() or default_assignor,
        tuple(_describe_member(group, member, topics) for member in group.members.values()),
    )


def _describe_member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> DescribedConsumer:
    held: dict[UUID, set[int]] = {}
    # It owns partitions until it has revoked them.
    for partitions in (member.assigned, member.revoking):
        for topic_id, each in partitions.items():
            held.setdefault(topic_id, set()).update(each)
    return DescribedConsumer(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        tuple(sorted(member.topic_names)),
        member.topic_regex,
        _name_topics(held, topics),
        _name_topics(group.target.get(member.member_id, {}), topics),
        member.is_classic,
    )


def _name_topics(partitions: Mapping[UUID, Collection[int]], topics: Topics) -> tuple[AssignedTopic, ...]:
    found = ((topics.by_id(topic_id), each) for topic_id, each in partitions.items())
    return tuple(AssignedTopic(topic.id, topic.name, tuple(sorted(each))) for topic, each in found if topic is not None)


def _not_a(group: Group | None, group_id: str, kind: str) -> str:
    return f"Group {group_id} not found." if group is None else f"Group {group_id} is not a {kind} group."


def list_groups(groups: Groups, states: Collection[str], kinds: Collection[str]) -> tuple[ListedGroup, ...]:
    """Filters by state and type, case-insensitively; an empty filter selects all."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_kinds = {kind.strip().lower() for kind in kinds}
    listed = (_list_group(group) for group in groups if not wanted_kinds or _kind(group) in wanted_kinds)
    return tuple(one for one in listed if not wanted_states or one.state.lower() in wanted_states)


def _list_group(group: Group) -> ListedGroup:
    protocol_type = CONSUMER_PROTOCOL_TYPE if isinstance(group, ConsumerGroup) else group.protocol_type or ""
    return ListedGroup(group.group_id, protocol_type, group.state.value, _kind(group))


def _kind(group: Group) -> str:
    return CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC
