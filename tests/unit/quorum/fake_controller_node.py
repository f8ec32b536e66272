"""A node of the quorum for the tests of its handlers: it says what the test wants, and notes what it was asked."""

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.quorum.apis.commands.apis import load_handler as load_controller_handler
from odradek.server.context import NO_CONNECTION, ConnectionPort, RequestContext
from odradek.wire.apis import CONTROLLER_APIS, load_handler
from odradek.wire.schemas import Message, schema
from tests import raw_wire

LISTENER = "CONTROLLER"
CLUSTER_ID = "odradek-test-cluster-1"
NODE_ID = 1
PROPERTIES = """
process.roles=controller
node.id=1
controller.quorum.voters=1@localhost:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://localhost:9093
log.dirs=/var/lib/odradek
"""

Answer = Callable[[int, int, Message], Message]


def not_controller(api_key: int, version: int, request: Message) -> Message:
    handler = load_controller_handler(api_key)
    return handler.refuse(request, schema(api_key, version), KafkaError(ErrorCode.not_controller))


class ScriptedController:
    def __init__(self) -> None:
        self.asked: list[tuple[int, int, Message]] = []
        self.answer: Answer = not_controller

    async def handle(self, api_key: int, version: int, request: Message) -> Message:
        self.asked.append((api_key, version, request))
        await asyncio.sleep(0)
        return self.answer(api_key, version, request)


class ScriptedQuorum:
    def __init__(self) -> None:
        self.leader_id = NODE_ID
        self.asked: list[tuple[int, int, str]] = []
        self.answered: Message = None

    async def answer(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        self.asked.append((api_key, version, listener_name))
        await asyncio.sleep(0)
        return self.answered


class InlineExecutor:
    def __init__(self) -> None:
        self.runs = 0

    async def run(self, work: Callable[[], Any], *, lane: str | None = None) -> Any:
        self.runs += 1
        return work()


class FakeControllerNode:
    def __init__(self) -> None:
        self.config = NodeConfig.load(PROPERTIES, "server.properties")
        self.clock: Any = None
        self.node_id = NODE_ID
        self.cluster_id = CLUSTER_ID
        self.executor = InlineExecutor()
        self.image = ClusterImage()
        self.controller = ScriptedController()
        self.quorum = ScriptedQuorum()
        self.heard: list[tuple[int, int, ConnectionPort]] = []

    def heard_from(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        self.heard.append((broker_id, broker_epoch, connection))

    def ask(self, api_key: int, version: int, *, connection: ConnectionPort = NO_CONNECTION, **fields: Any) -> Any:
        """The answer as a client reads it: through this version's bytes and back."""
        messages = schema(api_key, version)
        request = raw_wire.build(messages.request_type, fields)
        context = context_of(api_key, version)._replace(connection=connection)
        answer = load_handler(CONTROLLER_APIS[api_key]).handle(request, context, self)
        if asyncio.iscoroutine(answer):
            answer = asyncio.run(answer)
        return messages.read_foreign_response(messages.write(answer), 0)


def context_of(api_key: int, version: int) -> RequestContext:
    return RequestContext(
        api_key=api_key,
        version=version,
        client_id="test",
        listener_name=LISTENER,
        peer_host="127.0.0.1",
        schema=schema(api_key, version),
    )
