"""LeaveGroup, versions 0 to 5: members of a classic group leave; since version 3 several at once, sent away or not."""

from collections.abc import Awaitable

from odradek.base.deferred import DeferredResponse
from odradek.broker.apis.coordinator_response import ENTRIES_PER_TURN_MAX, NOT_THROTTLED, respond_in_turns, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import LeaveGroup, LeaveResponse, LeavingMember, LeftMember
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_FIRST_OF_MANY = 3


def handle(
    request: Message, context: RequestContext, broker: BrokerPort
) -> Message | DeferredResponse | Awaitable[Message]:
    command = LeaveGroup(request.group_id, _leaving(request, context.version))
    if len(command.members) > ENTRIES_PER_TURN_MAX:
        return respond_in_turns(
            lambda: [broker.groups.submit(command)], lambda responses: _response(responses[0], context)
        )
    return respond_with(broker.groups.submit(command), lambda answer: _response(answer, context))


def _leaving(request: Message, version: int) -> tuple[LeavingMember, ...]:
    if version < _FIRST_OF_MANY:
        return (LeavingMember(request.member_id, None),)
    return tuple(
        LeavingMember(one.member_id, one.group_instance_id, getattr(one, "reason", None)) for one in request.members
    )


def _response(answer: LeaveResponse, context: RequestContext) -> Message:
    if context.version < _FIRST_OF_MANY:
        return context.new("LeaveGroupResponse", throttle_time=NOT_THROTTLED, error_code=answer.single_error)
    return context.new(
        "LeaveGroupResponse",
        throttle_time=NOT_THROTTLED,
        error_code=answer.error,
        members=tuple(_member(member, context) for member in answer.members),
    )


def _member(member: LeftMember, context: RequestContext) -> Message:
    return context.new(
        "MemberResponse",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        error_code=member.error,
    )
