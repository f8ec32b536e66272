"""Requests that change metadata: handed to the active controller as they came, its answer returned."""

from collections.abc import Awaitable

from odradek.broker.ports import BrokerPort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    return broker.controller.forward(context.client, context.api_key, context.version, request)
