"""CreateDelegationToken, versions 1 to 3. The owner may be another principal than the requester since version 3."""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.controller.commands import ControllerCommands, ControllerResult, NewToken
from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis.delegation_tokens import NO_THROTTLE, build_creation_error, check_creation, owner_of
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema

_UNSET_TIMESTAMP: Final = 0
"""As in Kafka, in errors that the controller's command returns."""


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    owner = owner_of(request, context)
    if owner is None:
        return build_error_response(request, context.schema, KafkaError(ErrorCode.unknown_server_error))
    try:
        check_creation(context, owner)
    except KafkaError as error:
        return build_creation_error(context.schema, error.code, owner, context.principal)

    def execute_now(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
        return execute(request, messages, controller, context.principal, owner, node.clock.wall_ms())

    return await node.controller.handle(request, context.schema, execute_now, build_error_response)


def execute(
    request: Message,
    messages: Schema,
    controller: ControllerCommands,
    requester: Principal,
    owner: Principal,
    now_ms: int,
) -> ControllerResult[Message]:
    renewers = [Principal(one.principal_type, one.principal_name) for one in request.renewers]
    try:
        result = controller.create_delegation_token(NewToken(requester, owner, renewers, request.max_lifetime), now_ms)
    except KafkaError as error:
        response = build_creation_error(messages, error.code, owner, requester, timestamp=_UNSET_TIMESTAMP)
        return ControllerResult((), response)
    created = result.response
    response = messages.new(
        "CreateDelegationTokenResponse",
        error_code=ErrorCode.none,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=created.token.issue_timestamp_ms,
        expiry_timestamp=created.token.expiration_timestamp_ms,
        max_timestamp=created.token.max_timestamp_ms,
        token_id=created.token_id,
        hmac=created.hmac,
        throttle_time=NO_THROTTLE,
    )
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return build_creation_error(messages, error.code, ANONYMOUS, ANONYMOUS)
