"""DescribeGroups, versions 0 to 6: classic groups with their members."""

from odradek.base.errors import ErrorCode
from odradek.base.group_commands import DescribedGroup, DescribedMember
from odradek.handlers.broker.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from odradek.handlers.broker.coordinator_answer import NOT_THROTTLED
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    operations = GROUP_OPERATIONS if getattr(request, "include_authorized_operations", False) else NOT_ASKED
    return context.new(
        "DescribeGroupsResponse",
        throttle_time=NOT_THROTTLED,
        groups=tuple(
            _group(group, operations, context) for group in broker.groups.describe(request.groups, context.version)
        ),
    )


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
        authorized_operations=operations if group.error is ErrorCode.none else NOT_ASKED,
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
