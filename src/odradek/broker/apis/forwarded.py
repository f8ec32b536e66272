"""Forwards a request to the active controller, and returns its response."""

from collections.abc import Awaitable

from odradek.broker.ports import BrokerPort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return broker.controller.forward(context.client, context.api_key, context.version, request)
