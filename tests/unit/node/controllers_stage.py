"""Simulated controller nodes with real listeners and one shared `Controller`, and a broker that connects to it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.node_config import NodeConfig
from odradek.core.controller.controller import Controller
from odradek.node.controller_channel import FORWARDING_SECONDS_MAX, ControllerChannel
from odradek.server.context import RequestContext
from odradek.server.dispatch import ApiDispatcher, _Handler
from odradek.server.limits import NodeConnectionLimits
from odradek.server.response_sender import Streaming
from odradek.server.server import Listener
from odradek.sim.computer import Computer, Ports
from odradek.sim.world import World
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.schemas import Message
from tests.unit.core.controller.cluster import Cluster
from tests.unit.quorum.fake_controller_node import Command, FakeControllerNode, fail_with

PORT = 9093
not_controller = fail_with(ErrorCode.not_controller)
BROKER_ID = 4
PROPERTIES = f"""
process.roles=broker
node.id={BROKER_ID}
listeners=PLAINTEXT://b4:9092
controller.listener.names=CONTROLLER
controller.quorum.voters=1@c1:{PORT},2@c2:{PORT}
"""


class Address(NamedTuple):
    host: str
    port: int


class SeenQuorum:
    """The quorum as the broker sees it."""

    def __init__(self) -> None:
        self.is_leader = False
        self.leader: Address | None = None
        self.listeners: list[Callable[[], None]] = []
        self.high_watermark = 0

    def on_leader_change(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)


class OwnController:
    """The controller in the broker's own process."""

    def __init__(self, stage: "Stage") -> None:
        self.stage = stage
        self.is_active = False
        self.listeners: list[Callable[[Controller | None], None]] = []

    def on_activation(self, listener: Callable[[Controller | None], None]) -> None:
        self.listeners.append(listener)

    def run(self, command: Command) -> Any:
        return self.stage.run(command) if self.is_active else not_controller(command)


class WorldClock:
    """The controllers of a stage share one controller, so they also share one clock."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.now


class RecordingDispatcher(ApiDispatcher):
    def __init__(self, node: FakeControllerNode, requests: list[tuple[int, Message]]) -> None:
        super().__init__(CONTROLLER_APIS, node)
        self._requests = requests

    def _load(self, api_key: int) -> _Handler:
        handler = super()._load(api_key)

        def record(request: Message, context: RequestContext, node: FakeControllerNode) -> Any:
            self._requests.append((context.api_key, request))
            return handler.handle(request, context, node)

        return handler._replace(handle=record)


class Stage:
    def __init__(self, world: World, settings: str = "") -> None:
        self.world = world
        self.config = NodeConfig.load(PROPERTIES + settings, "f")
        self.cluster = Cluster(brokers=2)
        self.nodes: dict[str, FakeControllerNode] = {}
        self.requests: dict[str, list[tuple[int, Message]]] = {}
        """Received by each controller, with their API keys."""
        self.computers: dict[str, Computer] = {}
        self.limits: dict[str, NodeConnectionLimits] = {}
        for name in ("c1", "c2"):
            self.computers[name] = world.add_computer(name)
            self.start(name)
        self.quorum = SeenQuorum()
        self.own = OwnController(self)
        self.own_node = FakeControllerNode()
        self.own_node.clock = WorldClock(world)
        self.own_node.controller.run = self.own.run
        self.broker = world.add_computer("b4")
        self.ports: Ports
        self.channel: ControllerChannel
        self.broker.run(self._be_a_broker)
        world.run_for(0.1)

    # The controllers

    def start(self, name: str) -> None:
        self.computers[name].run(self._controller(name))
        self.world.run_for(0.1)

    def _controller(self, name: str) -> Callable[[Ports], Coroutine[Any, Any, int]]:
        async def program(ports: Ports) -> int:
            node = self.nodes[name] = FakeControllerNode()
            node.clock = WorldClock(self.world)
            self.requests[name] = []
            limits = self.limits[name] = NodeConnectionLimits(
                ports.clock, connections_max=100, per_address_max=100, per_address_overrides={}, idle_ms_max=-1
            )
            listener = Listener(
                "CONTROLLER", name, PORT, limits, Streaming(ports.executor), request_bytes_max=1 << 20, backlog=10
            )
            await listener.bind()
            await listener.serve(RecordingDispatcher(node, self.requests[name]))
            await asyncio.Event().wait()
            return 0

        return program

    def activate(self, name: str | None) -> None:
        """Makes it the active controller; the broker does not know yet."""
        for other, node in self.nodes.items():
            node.controller.run = self.run if other == name else not_controller

    def run(self, command: Command) -> Any:
        self.cluster.now = self.world.now
        return self.cluster.take(command(self.cluster.controller))

    def hang_up(self, name: str) -> None:
        """The controller closes its connections but keeps running."""

        def close() -> None:
            for connection in self.limits[name].connections():
                connection.abort()

        self.on(self.computers[name], close)

    # The broker

    async def _be_a_broker(self, ports: Ports) -> int:
        self.ports = ports
        await asyncio.Event().wait()
        return 0

    def open_channel(
        self,
        retry_seconds_max: float = FORWARDING_SECONDS_MAX,
        wait_until_applied: Callable[[int], Awaitable[None]] | None = None,
    ) -> ControllerChannel:
        self.channel = ControllerChannel(
            self.config,
            self.quorum,
            self.own,
            clock=self.ports.clock,
            local_node=self.own_node,
            retry_seconds_max=retry_seconds_max,
            wait_until_applied=wait_until_applied,
        )
        return self.channel

    def on(self, computer: Computer, act: Callable[[], object]) -> None:
        assert computer.process is not None
        computer.process.loop.call_soon(act)
        self.world.run_for(0.002)

    def see(self, name: str | None) -> None:
        """The broker learns of this leader."""

        def change_leader() -> None:
            self.quorum.leader = None if name is None else Address(name, PORT)
            for listener in self.quorum.listeners:
                listener()

        self.on(self.broker, change_leader)

    def lead(self, name: str) -> None:
        self.activate(name)
        self.see(name)

    def begin(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> "Outcome":
        """Runs this on the broker."""
        outcome = Outcome()

        async def run() -> None:
            try:
                outcome.result = await work()
            except KafkaError as error:
                outcome.error = error
            outcome.ended_at = self.world.now

        self.on(self.broker, lambda: outcome.keep(asyncio.ensure_future(run())))
        return outcome

    def check(self) -> None:
        assert not self.world.unexpected, self.world.unexpected


class Outcome:
    def __init__(self) -> None:
        self.result: Any = None
        self.error: KafkaError | None = None
        self.ended_at: float | None = None
        self.task: asyncio.Task[None]

    def keep(self, task: asyncio.Task[None]) -> None:
        self.task = task

    @property
    def is_done(self) -> bool:
        return self.ended_at is not None
