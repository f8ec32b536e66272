"""BrokerHeartbeat, versions 0 to 2. The connection of an accepted one is remembered: its end may mean the broker's."""

from odradek.base.errors import ErrorCode
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    response = await node.controller.handle(context.api_key, context.version, request)
    if response.error_code is ErrorCode.none:
        node.heard_from(request.broker_id, request.broker_epoch, context.connection)
    return response
