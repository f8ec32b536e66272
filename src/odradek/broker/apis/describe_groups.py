"""DescribeGroups, versions 0 to 6: classic groups with their members."""

from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.message_walk import ANY_NUMBER
from odradek.broker.apis.authorization import split_groups
from odradek.broker.apis.coordinator_response import NOT_THROTTLED
from odradek.broker.apis.sliced_response import respond_in_slices
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import DescribedGroup, DescribedMember
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.authorized_operations import NOT_REQUESTED, authorized_operations
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

ELEMENTS_MAX: Final = ANY_NUMBER

_PER_TURN_MAX: Final = 500


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    with_operations = getattr(request, "include_authorized_operations", False)
    access = context.access
    denied: list[Message] = []

    def describe(some: Sequence[str]) -> list[Message]:
        if access.is_restricted:
            some, others = split_groups(some, Operation.DESCRIBE, access)
            denied.extend(_denied(group_id, context) for group_id in others)
        described = broker.groups.describe(some, context.version)
        return [_group(group, context, with_operations=with_operations) for group in described]

    return respond_in_slices(
        request.groups,
        _PER_TURN_MAX,
        describe,
        lambda groups: _response([*denied, *groups], context),
    )


def _response(groups: Sequence[Message], context: RequestContext) -> Message:
    return context.new("DescribeGroupsResponse", throttle_time=NOT_THROTTLED, groups=tuple(groups))


def _denied(group_id: str, context: RequestContext) -> Message:
    group = DescribedGroup(group_id, ErrorCode.group_authorization_failed, None, "")
    return _group(group, context, with_operations=False)


def _group(group: DescribedGroup, context: RequestContext, *, with_operations: bool) -> Message:
    operations = NOT_REQUESTED
    if with_operations and group.error is ErrorCode.none:
        operations = authorized_operations(context.access, ResourceType.GROUP, group.group_id)
    return context.new(
        "DescribedGroup",
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_data,
        members=tuple(_member(member, context) for member in group.members),
        authorized_operations=operations,
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
