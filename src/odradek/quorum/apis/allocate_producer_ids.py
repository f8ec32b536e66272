"""AllocateProducerIds, version 0."""

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
    return handle_authorized(Operation.CLUSTER_ACTION, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    result = controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    response = messages.new(
        "AllocateProducerIdsResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id_start=result.response.first,
        producer_id_len=result.response.length,
    )
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return messages.new(
        "AllocateProducerIdsResponse",
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        producer_id_start=0,
        producer_id_len=0,
    )
