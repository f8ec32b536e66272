"""ControllerRegistration, version 0."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.core.controller.commands import ControllerCommands, ControllerRegistration
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands import offered
from odradek.quorum.apis.commands.answers import NO_THROTTLE
from odradek.wire.schemas import Message, Schema


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
