"""ConsumerGroupDescribe, versions 0 and 1: consumer groups, their epochs, and the assignment of each member."""

from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import AssignedTopic, DescribedConsumer, DescribedConsumerGroup
from odradek.core.metadata.features import GROUP_VERSION
from odradek.server.authorized_operations import GROUP_OPERATIONS, NOT_REQUESTED
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1
_PER_TURN_MAX: Final = 100


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED
    return respond_in_slices(
        request.group_ids,
        _PER_TURN_MAX,
        lambda some: [_group(group, operations, context) for group in _describe(some, broker)],
        lambda groups: _response(groups, context),
    )


def _response(groups: Sequence[Message], context: RequestContext) -> Message:
    return context.new("ConsumerGroupDescribeResponse", throttle_time=NOT_THROTTLED, groups=tuple(groups))


def _describe(group_ids: Sequence[str], broker: BrokerPort) -> Sequence[DescribedConsumerGroup]:
    if not broker.image.features.level(GROUP_VERSION):
        return [DescribedConsumerGroup(one, ErrorCode.unsupported_version) for one in group_ids]
    return broker.groups.describe_consumers(group_ids)


def _group(group: DescribedConsumerGroup, operations: int, context: RequestContext) -> Message:
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
        authorized_operations=operations if group.error is ErrorCode.none else NOT_REQUESTED,
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
