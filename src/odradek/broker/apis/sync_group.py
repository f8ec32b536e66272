"""SyncGroup, versions 0 to 5: members of a classic group get the assignment that their leader sends."""

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import may_read_group
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import SyncGroup, SyncResponse
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_FIRST_WITH_PROTOCOL = 5
"""Since this version requests have to name the protocol."""


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    command = SyncGroup(
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
        getattr(request, "protocol_type", None),
        getattr(request, "protocol_name", None),
        tuple((one.member_id, one.assignment) for one in request.assignments),
    )
    if context.version >= _FIRST_WITH_PROTOCOL and None in (command.protocol_type, command.protocol_name):
        return _response(SyncResponse(ErrorCode.inconsistent_group_protocol), context)
    if context.access.is_restricted and not may_read_group(context.access, request.group_id):
        return _response(SyncResponse(ErrorCode.group_authorization_failed), context)
    return respond_with(
        broker.groups.coordinator_of(command.group_id).submit(command), lambda response: _response(response, context)
    )


def _response(response: SyncResponse, context: RequestContext) -> Message:
    return context.new(
        "SyncGroupResponse",
        throttle_time=NOT_THROTTLED,
        error_code=response.error,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignment=response.assignment,
    )
