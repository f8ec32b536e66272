"""What a controller will need in a hurry is loaded before that, in the calm after its start.

Messages are imported, and their codecs built, on first use: some twenty milliseconds each, which a start need not
wait for. When the active controller dies, another one asks for votes, leads, and answers what it was never asked
before; there, one after the other, they would make the cluster wait.
"""

from functools import partial
from typing import Final

from odradek.base.ports import Executor
from odradek.node.controller_channel import ENVELOPE
from odradek.node.membership import BROKER_HEARTBEAT, BROKER_REGISTRATION
from odradek.quorum import wire
from odradek.quorum.apis.commands import apis as commands
from odradek.wire.apis import CONTROLLER_APIS, load_handler
from odradek.wire.schemas import schema

CREATE_TOPICS: Final = 19
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION: Final = 56

IN_A_HURRY: Final[tuple[tuple[int, int], ...]] = (
    *((api_key, wire.HIGHEST[api_key]) for api_key in (wire.VOTE, wire.BEGIN_QUORUM_EPOCH, wire.FETCH)),
    BROKER_HEARTBEAT,
    *(
        (api_key, CONTROLLER_APIS[api_key].high)
        for api_key in (ENVELOPE, ALTER_PARTITION, CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS)
    ),
    BROKER_REGISTRATION,
    *((api_key, wire.HIGHEST[api_key]) for api_key in (wire.END_QUORUM_EPOCH, wire.FETCH_SNAPSHOT)),
)
"""In the order of need."""


async def preload_for_failover(executor: Executor) -> None:
    """One after the other, in a thread: the loop has its turn between any two of them, and within."""
    for api_key, version in IN_A_HURRY:
        await executor.run(partial(_load, api_key, version))


def _load(api_key: int, version: int) -> None:
    schema(api_key, version).prepare()
    load_handler(CONTROLLER_APIS[api_key])
    if api_key in commands.CONTROLLER_APIS:
        commands.load_handler(api_key)
