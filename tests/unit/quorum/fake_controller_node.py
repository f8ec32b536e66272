"""A controller node for the tests of its API modules: its controller and quorum are scripted by the test."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Pool
from odradek.base.principal import Principal
from odradek.base.slices import Slices
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import (
    BrokerHeartbeatReply,
    ControllerResult,
    DeadProcess,
    Heartbeat,
    NewTopic,
    Registration,
)
from odradek.core.metadata.image import ClusterImage, ConfigResource
from odradek.core.quotas.mutations import MutationQuota
from odradek.core.quotas.node_quotas import unlimited_quotas
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.quorum.ports import BuildErrorResponse, Execute
from odradek.server.context import NO_CONNECTION, ConnectionPort, RequestContext
from odradek.server.slices import SliceTurns
from odradek.wire.apis import CONTROLLER_APIS, FORWARDABLE_APIS, load_handler
from odradek.wire.schemas import Message, Schema, schema
from tests import raw_wire

T = TypeVar("T")

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

Command = Callable[[Any], Any]


def fail_with(code: ErrorCode) -> Callable[[Command], Any]:
    def run(command: Command) -> Any:
        raise KafkaError(code)

    return run


class ScriptedController:
    """Runs each command with `run`; at first it is not the active controller."""

    def __init__(self) -> None:
        self.commands = 0
        self.run: Callable[[Command], Any] = fail_with(ErrorCode.not_controller)

    async def handle(
        self, request: Message, messages: Schema, execute: Execute, build_error_response: BuildErrorResponse
    ) -> Message:
        self.commands += 1
        await asyncio.sleep(0)
        try:
            return self.run(partial(execute, request, messages))
        except KafkaError as error:
            return build_error_response(request, messages, error)


class AcceptingCommands:
    """Accepts heartbeats and config changes, and finds that every topic exists already."""

    def __init__(self) -> None:
        self.resources: list[str] = []

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> ControllerResult[BrokerHeartbeatReply]:
        return ControllerResult((), BrokerHeartbeatReply(True, False, False, False))

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool, quota: MutationQuota
    ) -> ControllerResult[Any]:
        return ControllerResult((), {topic.name: KafkaError(ErrorCode.topic_already_exists) for topic in topics})

    def replace_configs(self, configs: Mapping[ConfigResource, Any], *, validate_only: bool) -> ControllerResult[Any]:
        self.resources += [name for _, name in configs]
        return ControllerResult((), dict.fromkeys(configs))

    change_configs = replace_configs

    def run(self, command: Command) -> Any:
        return command(self).response


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)


class ScriptedQuorum:
    def __init__(self) -> None:
        self.leader_id = NODE_ID
        self.requests: list[tuple[int, int, str]] = []
        self.response: Message = None

    async def handle(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        self.requests.append((api_key, version, listener_name))
        await asyncio.sleep(0)
        return self.response


class InlineExecutor:
    async def run(self, work: Callable[[], Any], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> Any:
        return work()


class CountedTurns(SliceTurns):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    async def run(self, slices: Slices[T]) -> T:
        self.runs += 1
        return await super().run(slices)


class FakeControllerNode:
    def __init__(self) -> None:
        self.config = NodeConfig.load(PROPERTIES, "server.properties")
        self.clock: Any = ManualClock()
        self.node_id = NODE_ID
        self.cluster_id = CLUSTER_ID
        self.audit = None
        self.executor = InlineExecutor()
        self.client_quotas = unlimited_quotas()
        self.slice_turns = CountedTurns()
        self.image = ClusterImage()
        self.controller = ScriptedController()
        self.quorum = ScriptedQuorum()
        self.dead_process: DeadProcess | None = None
        """The registered process that another one replaces."""
        self.heartbeats: list[tuple[int, int, ConnectionPort]] = []
        self.access: Access = UNRESTRICTED

    def access_of(self, principal: Principal, host: str) -> Access:
        return self.access

    async def find_dead_process(self, registration: Registration, peer_host: str | None) -> DeadProcess | None:
        return self.dead_process

    def on_heartbeat(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        self.heartbeats.append((broker_id, broker_epoch, connection))

    def request(
        self,
        api_key: int,
        version: int,
        *,
        connection: ConnectionPort = NO_CONNECTION,
        access: Access | None = None,
        **fields: Any,
    ) -> Any:
        """The response as a client reads it: written with this version's schema and read again. `access` is that of the
        connection; `access_of` returns another one."""
        messages = schema(api_key, version)
        request = raw_wire.build(messages.request_type, fields)
        context = context_of(api_key, version)._replace(connection=connection, access=access or self.access)
        response = self.handle(request, context)
        return messages.read_foreign_response(messages.write(response), 0)

    def handle(self, request: Message, context: RequestContext) -> Message:
        response = load_handler(CONTROLLER_APIS[context.api_key]).handle(request, context, self)
        # A broker awaits what it forwards to the controller in its own process.
        assert context.api_key not in FORWARDABLE_APIS or asyncio.iscoroutine(response)
        return asyncio.run(response) if asyncio.iscoroutine(response) else response


def context_of(api_key: int, version: int) -> RequestContext:
    return RequestContext(
        api_key=api_key,
        version=version,
        client_id="test",
        listener_name=LISTENER,
        peer_host="127.0.0.1",
        schema=schema(api_key, version),
    )
