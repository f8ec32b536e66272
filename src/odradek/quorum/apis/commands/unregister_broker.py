"""UnregisterBroker, version 0."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE
from odradek.wire.schemas import Message, Schema


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    decision = controller.unregister_broker(request.broker_id)
    response = messages.new(
        "UnregisterBrokerResponse", throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None
    )
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return messages.new(
        "UnregisterBrokerResponse", throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message
    )
