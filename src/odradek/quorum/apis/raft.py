"""The nine APIs of the Raft protocol: votes, epochs, the metadata log and its snapshots, the voter set.

They share one module because the quorum's driver serves them all: `quorum/wire` translates each one's messages.
"""

from collections.abc import Awaitable

from odradek.base.errors import KafkaError
from odradek.quorum.ports import ControllerNodePort
from odradek.quorum.wire import refuse
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    # Only replicas fetch the metadata log; the other Raft APIs have one metric each.
    context.meter.count_as_follower()
    return node.quorum.handle(context.api_key, context.version, request, context.listener_name)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return refuse(messages.api_key, messages, error.code)
