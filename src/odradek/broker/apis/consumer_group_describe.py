"""ConsumerGroupDescribe, versions 0 and 1: consumer groups, their epochs, and the assignment of each member."""

from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.authorization import AllowedTopics, allowed_topics, split_groups
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import AssignedTopic, DescribedConsumer, DescribedConsumerGroup
from odradek.core.metadata.features import GROUP_VERSION
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.authorized_operations import NOT_REQUESTED, authorized_operations
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1
_PER_TURN_MAX: Final = 100
_DENIED_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    is_enabled = broker.image.features.level(GROUP_VERSION)
    with_operations = request.include_authorized_operations
    topics = allowed_topics(context.access, Operation.DESCRIBE)
    denied: list[Message] = []

    def describe(some: Sequence[str]) -> list[Message]:
        if not is_enabled:
            return [_failure(group_id, ErrorCode.unsupported_version, context) for group_id in some]
        if topics is not None:
            some, others = split_groups(some, Operation.DESCRIBE, context.access)
            denied.extend(_failure(group_id, ErrorCode.group_authorization_failed, context) for group_id in others)
        described: Iterable[DescribedConsumerGroup] = broker.groups.describe_consumers(some)
        if topics is not None:
            described = (_hide_denied(group, topics) for group in described)
        return [_group(group, context, with_operations=with_operations) for group in described]

    return respond_in_slices(
        request.group_ids,
        _PER_TURN_MAX,
        describe,
        lambda groups: _response([*denied, *groups], context),
    )


def _response(groups: Sequence[Message], context: RequestContext) -> Message:
    return context.new("ConsumerGroupDescribeResponse", throttle_time=NOT_THROTTLED, groups=tuple(groups))


def _hide_denied(group: DescribedConsumerGroup, topics: AllowedTopics) -> DescribedConsumerGroup:
    """The whole group is hidden if one member has a topic that the client may not describe."""
    assigned = {one.topic for member in group.members for one in (*member.assignment, *member.target_assignment)}
    denied = [topic for topic in assigned if topic not in topics]
    if not denied:
        return group
    return DescribedConsumerGroup(group.group_id, ErrorCode.topic_authorization_failed, _DENIED_TOPICS)


def _failure(group_id: str, error: ErrorCode, context: RequestContext) -> Message:
    return _group(DescribedConsumerGroup(group_id, error), context, with_operations=False)


def _group(group: DescribedConsumerGroup, context: RequestContext, *, with_operations: bool) -> Message:
    operations = NOT_REQUESTED
    if with_operations and group.error is ErrorCode.none:
        operations = authorized_operations(context.access, ResourceType.GROUP, group.group_id)
    return context.new(
        "DescribedGroup",
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(member, context) for member in group.members),
        authorized_operations=operations,
    )


def _member(member: DescribedConsumer, context: RequestContext) -> Message:
    return context.new(
        "Member",
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment, context),
        target_assignment=_assignment(member.target_assignment, context),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(topics: Sequence[AssignedTopic], context: RequestContext) -> Message:
    return context.new(
        "Assignment",
        topic_partitions=tuple(
            context.new("TopicPartitions", topic_id=one.topic_id, topic_name=one.topic, partitions=one.partitions)
            for one in topics
        ),
    )
