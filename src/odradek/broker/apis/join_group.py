"""JoinGroup, versions 0 to 9: a member joins a classic group; the response waits for the other members."""

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import may_read_group
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, java_address, milliseconds, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import JoinedMember, JoinGroup, JoinResponse, MemberProtocol
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_FIRST_WITHOUT_PROTOCOL = 7
"""Since this version the protocol name is null if there is none; before, it is empty."""


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    if context.access.is_restricted and not may_read_group(context.access, request.group_id):
        return _response(JoinResponse(ErrorCode.group_authorization_failed, ""), context)
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
        context.access,
    )
    return respond_with(
        broker.groups.coordinator_of(command.group_id).submit(command), lambda response: _response(response, context)
    )


def _response(response: JoinResponse, context: RequestContext) -> Message:
    no_protocol = "" if context.version < _FIRST_WITHOUT_PROTOCOL else None
    return context.new(
        "JoinGroupResponse",
        throttle_time=NOT_THROTTLED,
        error_code=response.error,
        generation_id=response.generation_id,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name or no_protocol,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=tuple(_member(member, context) for member in response.members),
    )


def _member(member: JoinedMember, context: RequestContext) -> Message:
    return context.new(
        "JoinGroupResponseMember",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        metadata=member.metadata,
    )
