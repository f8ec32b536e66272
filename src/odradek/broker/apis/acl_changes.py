"""CreateAcls and DeleteAcls: the active controller executes them."""

from collections.abc import Awaitable

from odradek.broker.ports import BrokerPort
from odradek.server.context import CLOSE_CONNECTION, RequestContext, Response
from odradek.wire.acl_requests import has_unknown_codes
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Response | Awaitable[Response]:
    if has_unknown_codes(request):
        # Kafka cannot parse such a request.
        return CLOSE_CONNECTION
    return broker.controller.forward(context.client, context.api_key, context.version, request)
