"""ExpireDelegationToken, versions 1 and 2."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis.delegation_tokens import NO_TIMESTAMP, build_expiration_response, check_connection
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    try:
        check_connection(context)
    except KafkaError as error:
        return build_expiration_response(context.schema, error.code, NO_TIMESTAMP)

    def execute_now(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
        return execute(request, messages, controller, context.principal, node.clock.wall_ms())

    return await node.controller.handle(request, context.schema, execute_now, build_error_response)


def execute(
    request: Message, messages: Schema, controller: ControllerCommands, principal: Principal, now_ms: int
) -> ControllerResult[Message]:
    result = controller.expire_delegation_token(principal, request.hmac, request.expiry_time_period, now_ms)
    return result.with_response(build_expiration_response(messages, ErrorCode.none, result.response))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    # As in Kafka: only a connection that may not manage tokens gets a timestamp of -1.
    return build_expiration_response(messages, error.code, 0)
