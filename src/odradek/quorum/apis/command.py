"""Requests that the active controller decides. Any other node refuses them with NOT_CONTROLLER."""

from collections.abc import Awaitable

from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return node.controller.handle(context.api_key, context.version, request)
