"""Loads the code that a failover needs, soon after the node has started.

Messages are imported, and their codecs built, on first use: about twenty milliseconds each, which the start of a node
does not wait for. When the active controller dies, another one requests votes, becomes leader and serves APIs that it
has not served before. Without preloading, each first use would make the cluster wait.
"""

from functools import partial
from typing import Final

from odradek.base.ports import Executor
from odradek.node.broker_lifecycle import BROKER_HEARTBEAT, BROKER_REGISTRATION
from odradek.wire.apis import CONTROLLER_APIS, ApiKey, load_handler
from odradek.wire.schemas import schema


def _latest(*api_keys: ApiKey) -> tuple[tuple[ApiKey, int], ...]:
    return tuple((api_key, CONTROLLER_APIS[api_key].high) for api_key in api_keys)


FAILOVER_APIS: Final = (
    *_latest(ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.FETCH),
    BROKER_HEARTBEAT,
    *_latest(ApiKey.ENVELOPE, ApiKey.ALTER_PARTITION, ApiKey.CREATE_TOPICS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
    BROKER_REGISTRATION,
    *_latest(ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT),
)
"""API keys and versions, in the order in which a failover uses them."""


async def preload_for_failover(executor: Executor) -> None:
    """Loads one API after the other in a thread, so that the event loop keeps running."""
    for api_key, version in FAILOVER_APIS:
        await executor.run(partial(_load, api_key, version))


def _load(api_key: int, version: int) -> None:
    schema(api_key, version).prepare()
    load_handler(CONTROLLER_APIS[api_key])
