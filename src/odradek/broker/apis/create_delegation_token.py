"""CreateDelegationToken, versions 1 to 3: the broker checks the client's connection, the owner and the renewers."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import ANONYMOUS, USER
from odradek.broker.ports import BrokerPort
from odradek.server.apis.delegation_tokens import build_creation_error, check_creation, owner_of
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


async def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    owner = owner_of(request, context)
    if owner is None:
        return build_creation_error(context.schema, ErrorCode.unknown_server_error, ANONYMOUS, ANONYMOUS)
    try:
        check_creation(context, owner)
        if any(renewer.principal_type != USER for renewer in request.renewers):
            raise KafkaError(ErrorCode.invalid_principal_type)
    except KafkaError as error:
        return build_creation_error(context.schema, error.code, owner, context.principal)
    return await broker.controller.forward(context.client, context.api_key, context.version, request)
