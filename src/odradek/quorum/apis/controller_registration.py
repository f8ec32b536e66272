"""ControllerRegistration, version 0."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.core.controller.commands import ControllerCommands, ControllerRegistration, ControllerResult
from odradek.core.security.resources import Operation
from odradek.quorum.apis.registration_parts import endpoints_of, features_of
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.server.denials import default_message, find_cluster_denial
from odradek.wire.schemas import Message, Schema


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    denial = find_cluster_denial(context, Operation.CLUSTER_ACTION)
    if denial is not None:
        # Of this API, Kafka sends only default messages.
        return _response(context.schema, denial.code, default_message(denial.code))
    return await node.controller.handle(request, context.schema, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    registration = ControllerRegistration(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id or ZERO_UUID,
        endpoints=endpoints_of(request),
        features=features_of(request),
    )
    return controller.register_controller(registration).with_response(_response(messages, ErrorCode.none, None))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, error.code, error.message)


def _response(messages: Schema, code: ErrorCode, message: str | None) -> Message:
    return messages.new(
        "ControllerRegistrationResponse", throttle_time=NO_THROTTLE, error_code=code, error_message=message
    )
