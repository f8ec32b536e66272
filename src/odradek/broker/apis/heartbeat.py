"""Heartbeat, versions 0 to 4: a member of a classic group lives, and hears whether it has to join again."""

from odradek.base.deferred import DeferredResponse
from odradek.broker.apis.coordinator_response import NOT_THROTTLED, respond_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import Heartbeat, HeartbeatResponse
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | DeferredResponse:
    group_id = request.group_id
    command = Heartbeat(group_id, request.generation_id, request.member_id, getattr(request, "group_instance_id", None))
    return respond_with(broker.groups.submit(command), lambda answer: _response(answer, context))


def _response(answer: HeartbeatResponse, context: RequestContext) -> Message:
    return context.new("HeartbeatResponse", throttle_time=NOT_THROTTLED, error_code=answer.error)
