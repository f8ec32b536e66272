"""DescribeGroups, versions 0 to 6: classic groups with their members."""

from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import DescribedGroup, DescribedMember
from odradek.server.authorized_operations import GROUP_OPERATIONS, NOT_REQUESTED
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_PER_TURN_MAX: Final = 500


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    operations = GROUP_OPERATIONS if getattr(request, "include_authorized_operations", False) else NOT_REQUESTED
    return respond_in_slices(
        request.groups,
        _PER_TURN_MAX,
        lambda some: [_group(group, operations, context) for group in broker.groups.describe(some, context.version)],
        lambda groups: _response(groups, context),
    )


def _response(groups: Sequence[Message], context: RequestContext) -> Message:
    return context.new("DescribeGroupsResponse", throttle_time=NOT_THROTTLED, groups=tuple(groups))


def _group(group: DescribedGroup, operations: int, context: RequestContext) -> Message:
    return context.new(
        "DescribedGroup",
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_data,
        members=tuple(_member(member, context) for member in group.members),
        authorized_operations=operations if group.error is ErrorCode.none else NOT_REQUESTED,
    )


def _member(member: DescribedMember, context: RequestContext) -> Message:
    return context.new(
        "DescribedGroupMember",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
