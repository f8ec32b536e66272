"""Requests of the metadata quorum itself: votes, epochs, the log and its snapshots, the set of voters."""

from collections.abc import Awaitable

from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    # Nobody reads the metadata log but its followers. Other requests have one kind only.
    context.meter.is_follower()
    return node.quorum.answer(context.api_key, context.version, request, context.listener_name)
