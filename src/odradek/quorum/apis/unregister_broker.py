"""UnregisterBroker, version 0."""

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.core.security.resources import Operation
from odradek.quorum.apis.authorized_commands import handle_authorized
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_authorized(Operation.ALTER, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    result = controller.unregister_broker(request.broker_id)
    response = messages.new(
        "UnregisterBrokerResponse", throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None
    )
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return messages.new(
        "UnregisterBrokerResponse", throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message
    )
