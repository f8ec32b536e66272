"""The nine APIs of the Raft protocol: votes, epochs, the metadata log and its snapshots, the voter set.

They share one module because the quorum's driver serves them all: `quorum/wire` translates each one's messages.
"""

from collections.abc import Mapping
from typing import Final

from odradek.base.errors import KafkaError
from odradek.core.security.resources import Operation
from odradek.quorum.ports import ControllerNodePort
from odradek.quorum.wire import refuse, refuse_fetch
from odradek.server.context import RequestContext
from odradek.server.denials import find_cluster_denial
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_FROM_CLIENTS: Final[Mapping[int, Operation]] = {
    ApiKey.DESCRIBE_QUORUM: Operation.DESCRIBE,
    ApiKey.ADD_RAFT_VOTER: Operation.ALTER,
    ApiKey.REMOVE_RAFT_VOTER: Operation.ALTER,
}


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    # Only replicas fetch the metadata log; the other Raft APIs have one metric each.
    context.meter.count_as_follower()
    denial = find_cluster_denial(context, _FROM_CLIENTS.get(context.api_key, Operation.CLUSTER_ACTION))
    if denial is not None:
        return build_error_response(request, context.schema, denial)
    return await node.quorum.handle(context.api_key, context.version, request, context.listener_name)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    if messages.api_key == ApiKey.FETCH:
        return refuse_fetch(messages, request, error.code)
    return refuse(messages.api_key, messages, error.code)
