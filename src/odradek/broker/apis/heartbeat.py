"""Heartbeat, versions 0 to 4: renews the session of a classic member, and returns whether it has to rejoin."""

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.apis.authorization import may_read_group
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import Heartbeat, HeartbeatResponse
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    if context.access.is_restricted and not may_read_group(context.access, request.group_id):
        return _response(HeartbeatResponse(ErrorCode.group_authorization_failed), context)
    instance_id = getattr(request, "group_instance_id", None)
    command = Heartbeat(request.group_id, request.generation_id, request.member_id, instance_id)
    return respond_with(
        broker.groups.coordinator_of(command.group_id).submit(command), lambda response: _response(response, context)
    )


def _response(response: HeartbeatResponse, context: RequestContext) -> Message:
    return context.new("HeartbeatResponse", throttle_time=NOT_THROTTLED, error_code=response.error)
