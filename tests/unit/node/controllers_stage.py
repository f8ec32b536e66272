"""Controllers on virtual machines, real listeners in front of one real `Controller`, and a broker that looks for it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from odradek.base.errors import KafkaError
from odradek.config.node_config import NodeConfig
from odradek.core.controller.controller import Controller
from odradek.node.controller_channel import FORWARDING_SECONDS_MAX, ControllerChannel
from odradek.quorum.apis.commands.apis import load_handler
from odradek.server.dispatch import ApiDispatcher
from odradek.server.limits import NodeConnectionLimits
from odradek.server.server import Listener
from odradek.sim.machine import Machine, Ports
from odradek.sim.world import World
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.schemas import Message, schema
from tests.unit.core.controller.cluster import Cluster
from tests.unit.quorum.fake_controller_node import FakeControllerNode, not_controller

PORT = 9093
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
    """What the broker believes of the quorum."""

    def __init__(self) -> None:
        self.is_leader = False
        self.leader: Address | None = None
        self.told: list[Callable[[], None]] = []
        self.answers = FakeControllerNode().quorum

    def on_leader_change(self, told: Callable[[], None]) -> None:
        self.told.append(told)

    async def answer(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        return await self.answers.answer(api_key, version, request, listener_name)


class OwnController:
    """The controller in the broker's own process."""

    def __init__(self, stage: "Stage") -> None:
        self.stage = stage
        self.is_active = False
        self.told: list[Callable[[Controller | None], None]] = []

    @property
    def remote(self) -> "OwnController":
        return self

    def on_activation(self, told: Callable[[Controller | None], None]) -> None:
        self.told.append(told)

    async def handle(self, api_key: int, version: int, request: Message) -> Message:
        await asyncio.sleep(0)
        answer = self.stage.decide if self.is_active else not_controller
        return answer(api_key, version, request)


class Stage:
    def __init__(self, world: World, settings: str = "") -> None:
        self.world = world
        self.config = NodeConfig.load(PROPERTIES + settings, "f")
        self.cluster = Cluster(brokers=2)
        self.nodes: dict[str, FakeControllerNode] = {}
        self.machines: dict[str, Machine] = {}
        self.limits: dict[str, NodeConnectionLimits] = {}
        for name in ("c1", "c2"):
            self.machines[name] = world.add_machine(name)
            self.start(name)
        self.quorum = SeenQuorum()
        self.own = OwnController(self)
        self.broker = world.add_machine("b4")
        self.ports: Ports
        self.channel: ControllerChannel
        self.broker.run(self._be_a_broker)
        world.run_for(0.1)

    # The controllers

    def start(self, name: str) -> None:
        self.machines[name].run(self._controller(name))
        self.world.run_for(0.1)

    def _controller(self, name: str) -> Callable[[Ports], Coroutine[Any, Any, int]]:
        async def program(ports: Ports) -> int:
            node = self.nodes[name] = FakeControllerNode()
            limits = self.limits[name] = NodeConnectionLimits(
                ports.clock, connections_max=100, per_address_max=100, per_address_overrides={}, idle_ms_max=-1
            )
            listener = Listener("CONTROLLER", name, PORT, limits, request_bytes_max=1 << 20, backlog=10)
            await listener.bind()
            await listener.serve(ApiDispatcher(CONTROLLER_APIS, node))
            await asyncio.Event().wait()
            return 0

        return program

    def activate(self, name: str | None) -> None:
        """It alone decides; the broker does not know yet."""
        for other, node in self.nodes.items():
            node.controller.answer = self.decide if other == name else not_controller

    def decide(self, api_key: int, version: int, request: Message) -> Message:
        messages, handler = schema(api_key, version), load_handler(api_key)
        self.cluster.now = self.world.now
        try:
            return self.cluster.take(handler.handle(request, messages, self.cluster.controller, self.cluster.now))
        except KafkaError as error:
            return handler.refuse(request, messages, error)

    def hang_up(self, name: str) -> None:
        """The controller closes its connections, and lives."""

        def close() -> None:
            for connection in self.limits[name].connections():
                connection.abort()

        self.on(self.machines[name], close)

    # The broker

    async def _be_a_broker(self, ports: Ports) -> int:
        self.ports = ports
        await asyncio.Event().wait()
        return 0

    def open_channel(
        self,
        retry_seconds_max: float = FORWARDING_SECONDS_MAX,
        reached: Callable[[int], Awaitable[None]] | None = None,
    ) -> ControllerChannel:
        self.channel = ControllerChannel(
            self.config,
            self.quorum,
            self.own,
            clock=self.ports.clock,
            retry_seconds_max=retry_seconds_max,
            reached=reached,
        )
        return self.channel

    def on(self, machine: Machine, act: Callable[[], object]) -> None:
        assert machine.process is not None
        machine.process.loop.call_soon(act)
        self.world.run_for(0.002)

    def see(self, name: str | None) -> None:
        """The broker hears who leads."""

        def hear() -> None:
            self.quorum.leader = None if name is None else Address(name, PORT)
            for told in self.quorum.told:
                told()

        self.on(self.broker, hear)

    def lead(self, name: str) -> None:
        self.activate(name)
        self.see(name)

    def begin(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> "Outcome":
        """Work of the broker's."""
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
