"""ControllerRegistration, version 0."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.metadata.commands import ControllerCommands, ControllerRegistration
from odradek.metadata.decision import Decision
from odradek.protocol.schemas import Message, Schema

from . import offered
from .answers import NO_THROTTLE


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    registration = ControllerRegistration(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id or ZERO_UUID,
        endpoints=offered.endpoints(request),
        features=offered.features(request),
    )
    return controller.register_controller(registration).answered(_response(messages, ErrorCode.none, None))


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, error.code, error.message)


def _response(messages: Schema, code: ErrorCode, message: str | None) -> Message:
    return messages.new(
        "ControllerRegistrationResponse", throttle_time=NO_THROTTLE, error_code=code, error_message=message
    )
