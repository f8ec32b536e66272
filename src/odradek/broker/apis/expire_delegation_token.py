"""ExpireDelegationToken, versions 1 and 2: the broker checks the client's connection, the controller all else."""

from odradek.base.errors import KafkaError
from odradek.broker.ports import BrokerPort
from odradek.server.apis.delegation_tokens import NO_TIMESTAMP, build_expiration_response, check_connection
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


async def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    try:
        check_connection(context)
    except KafkaError as error:
        return build_expiration_response(context.schema, error.code, NO_TIMESTAMP)
    return await broker.controller.forward(context.client, context.api_key, context.version, request)
