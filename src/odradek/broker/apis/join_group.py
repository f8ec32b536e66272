"""JoinGroup, versions 0 to 9: a member of a classic group joins, and waits until the others have."""

from odradek.base.deferred import DeferredResponse
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, java_address, milliseconds, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import JoinedMember, JoinGroup, JoinResponse, MemberProtocol
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_FIRST_WITHOUT_PROTOCOL = 7
"""From this version on a response may say that there is no protocol; before, its name is empty."""


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    command = JoinGroup(
        context.version,
        request.group_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
        context.client_id or "",
        java_address(context.peer_host),
        milliseconds(request.session_timeout),
        milliseconds(getattr(request, "rebalance_timeout", request.session_timeout)),
        request.protocol_type,
        tuple(MemberProtocol(one.name, one.metadata) for one in request.protocols),
        getattr(request, "reason", None),
    )
    return respond_with(broker.groups.submit(command), lambda answer: _response(answer, context))


def _response(answer: JoinResponse, context: RequestContext) -> Message:
    nothing = "" if context.version < _FIRST_WITHOUT_PROTOCOL else None
    return context.new(
        "JoinGroupResponse",
        throttle_time=NOT_THROTTLED,
        error_code=answer.error,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name or nothing,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(_member(member, context) for member in answer.members),
    )


def _member(member: JoinedMember, context: RequestContext) -> Message:
    return context.new(
        "JoinGroupResponseMember",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        metadata=member.metadata,
    )
