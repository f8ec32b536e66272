"""Heartbeat, versions 0 to 4: a member of a classic group lives, and hears whether it has to join again."""

from odradek.broker.apis.coordinator_answer import NOT_THROTTLED, answer_with
from odradek.broker.ports import BrokerPort
from odradek.core.groups.commands import Heartbeat, HeartbeatAnswer
from odradek.server.context import RequestContext
from odradek.server.late_answer import LateAnswer
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | LateAnswer:
    group_id = request.group_id
    command = Heartbeat(group_id, request.generation_id, request.member_id, getattr(request, "group_instance_id", None))
    return answer_with(broker.groups.ask(group_id, command), lambda answer: _response(answer, context))


def _response(answer: HeartbeatAnswer, context: RequestContext) -> Message:
    return context.new("HeartbeatResponse", throttle_time=NOT_THROTTLED, error_code=answer.error)
