"""LeaveGroup, versions 0 to 5: members leave a classic group, or an admin removes them (several since version 3)."""

from collections.abc import Awaitable

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import may_read_group
from odradek.broker.apis.coordinator_response import ENTRIES_PER_TURN_MAX, NOT_THROTTLED, respond_in_turns, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import LeaveGroup, LeaveResponse, LeavingMember, LeftMember
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_FIRST_WITH_SEVERAL_MEMBERS = 3


def handle(
    request: Message, context: RequestContext, broker: BrokerPort
) -> Message | DeferredResponse | Awaitable[Message]:
    if context.access.is_restricted and not may_read_group(context.access, request.group_id):
        return _response(LeaveResponse(ErrorCode.group_authorization_failed), context)
    command = LeaveGroup(request.group_id, _leaving_members(request, context.version))
    if len(command.members) > ENTRIES_PER_TURN_MAX:
        return respond_in_turns(
            lambda: [broker.groups.coordinator_of(command.group_id).submit(command)],
            lambda responses: _response(responses[0], context),
        )
    return respond_with(
        broker.groups.coordinator_of(command.group_id).submit(command), lambda response: _response(response, context)
    )


def _leaving_members(request: Message, version: int) -> tuple[LeavingMember, ...]:
    if version < _FIRST_WITH_SEVERAL_MEMBERS:
        return (LeavingMember(request.member_id, None),)
    return tuple(
        LeavingMember(one.member_id, one.group_instance_id, getattr(one, "reason", None)) for one in request.members
    )


def _response(response: LeaveResponse, context: RequestContext) -> Message:
    if context.version < _FIRST_WITH_SEVERAL_MEMBERS:
        return context.new("LeaveGroupResponse", throttle_time=NOT_THROTTLED, error_code=response.single_error)
    return context.new(
        "LeaveGroupResponse",
        throttle_time=NOT_THROTTLED,
        error_code=response.error,
        members=tuple(_member(member, context) for member in response.members),
    )


def _member(member: LeftMember, context: RequestContext) -> Message:
    return context.new(
        "MemberResponse",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        error_code=member.error,
    )
