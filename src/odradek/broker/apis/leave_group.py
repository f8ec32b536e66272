"""LeaveGroup, versions 0 to 5: members of a classic group leave; since version 3 several at once, sent away or not."""

from collections.abc import Awaitable

from odradek.broker.apis.coordinator_answer import IN_ONE_GO_MAX, NOT_THROTTLED, answer_in_steps, answer_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import LeaveAnswer, LeaveGroup, LeavingMember, LeftMember
from odradek.server.context import RequestContext
from odradek.server.late_answer import LateAnswer
from odradek.wire.schemas import Message

_FIRST_OF_MANY = 3


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | LateAnswer | Awaitable[Message]:
    command = LeaveGroup(request.group_id, _leaving(request, context.version))
    if len(command.members) > IN_ONE_GO_MAX:
        return answer_in_steps(
            lambda: [broker.groups.ask(command.group_id, command)], lambda answers: _response(answers[0], context)
        )
    return answer_with(broker.groups.ask(command.group_id, command), lambda answer: _response(answer, context))


def _leaving(request: Message, version: int) -> tuple[LeavingMember, ...]:
    if version < _FIRST_OF_MANY:
        return (LeavingMember(request.member_id, None),)
    return tuple(
        LeavingMember(one.member_id, one.group_instance_id, getattr(one, "reason", None)) for one in request.members
    )


def _response(answer: LeaveAnswer, context: RequestContext) -> Message:
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
