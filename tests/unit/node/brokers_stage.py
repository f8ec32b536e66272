"""Three brokers and the active controller on a virtual network, as the detection of dead processes sees them."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import ControllerResult
from odradek.core.controller.controller import Controller
from odradek.core.metadata.records import Endpoint
from odradek.node.dead_brokers import DeadBrokers
from odradek.node.reached_brokers import ReachedBrokers
from odradek.node.takeovers import Takeovers
from odradek.sim.computer import Computer, Ports
from odradek.sim.world import World
from tests.unit.core.controller.cluster import PROPERTIES, Cluster

T = TypeVar("T")
PORT = 9092
CONTROLLER_ID = 9


class Connection:
    """Of a broker's heartbeats, as far as the detection sees it."""

    def __init__(self) -> None:
        self.was_closed_here = False
        self.listeners: list[Callable[[], None]] = []

    def on_close(self, listener: Callable[[], None]) -> None:
        if listener not in self.listeners:
            self.listeners.append(listener)

    def close(self, *, here: bool = False) -> None:
        self.was_closed_here = here
        for listener in self.listeners:
            listener()


class Stage:
    """Three brokers and the active controller, each on a machine of its own."""

    def __init__(
        self, world: World, settings: str = "", *, rejected: int | None = None, node_id: int = CONTROLLER_ID
    ) -> None:
        """A firewall rejects connections from the controller to the port of broker `rejected`."""
        self.world = world
        self.settings = settings
        self.node_id = node_id
        self.cluster = Cluster(brokers=0)
        self.computers = {broker_id: world.add_computer(f"b{broker_id}") for broker_id in (1, 2, 3)}
        for broker_id, computer in self.computers.items():
            endpoint = Endpoint(name="PLAINTEXT", host=computer.name, port=PORT, security_protocol=0)
            self.cluster.register(broker_id, endpoints=(endpoint,))
            self.cluster.beat(broker_id)
            self.listen(computer)
        self.connections = {broker_id: Connection() for broker_id in self.computers}
        self.has_majority = True
        self.refuses_commands = False
        self.detection: DeadBrokers
        self.reached: ReachedBrokers
        self.takeovers: Takeovers
        self.is_only_voter = False
        self.controller = world.add_computer("controller")
        if rejected is not None:
            world.network.reject(self.controller.name, self.computers[rejected].name, PORT)
        self.controller.run(self._control)
        world.run_for(0.1)

    def listen(self, computer: Computer) -> None:
        async def program(ports: Ports) -> int:
            await asyncio.get_running_loop().create_server(asyncio.Protocol, computer.name, PORT)
            await asyncio.Event().wait()
            return 0

        computer.run(program)

    async def _control(self, ports: Ports) -> int:
        own = PROPERTIES.replace("node.id=1", f"node.id={self.node_id}").replace("1@", f"{self.node_id}@")
        config = NodeConfig.load(own + self.settings, "f")
        self._clock = ports.clock
        self.reached = ReachedBrokers(config, clock=ports.clock)
        self.reached.start(self.cluster.image)
        self.detection = DeadBrokers(
            config, self, self.reached, clock=ports.clock, majority_fetched_within=lambda seconds: self.has_majority
        )
        self.takeovers = Takeovers(
            config, self.reached, self.detection, clock=ports.clock, is_only_voter=lambda: self.is_only_voter
        )
        await asyncio.Event().wait()
        return 0

    async def execute_own(self, command: Callable[[Controller], ControllerResult[T]]) -> T:
        if self.refuses_commands:
            raise KafkaError(ErrorCode.not_controller)
        return self.cluster.take(command(self.cluster.controller))

    def do(self, act: Callable[[], object]) -> None:
        """From within the controller's process."""
        assert self.controller.process is not None
        self.controller.process.loop.call_soon(act)
        self.world.run_for(0.001)

    @property
    def controller_now(self) -> float:
        return self._clock.monotonic()

    def activate(self) -> None:
        self.do(lambda: self.detection.on_activation(self.cluster.controller))

    def beat(self, broker_id: int) -> None:
        epoch = self.cluster.image.brokers[broker_id].epoch
        self.do(lambda: self.detection.on_heartbeat(broker_id, epoch, self.connections[broker_id]))

    def serve(self) -> None:
        self.activate()
        for broker_id in self.computers:
            self.beat(broker_id)

    def kill(self, broker_id: int) -> None:
        self.computers[broker_id].kill()
        self.do(self.connections[broker_id].close)

    @property
    def fenced(self) -> list[int]:
        return [broker.id for broker in self.cluster.image.brokers.values() if broker.fenced]

    def check(self) -> None:
        assert not self.world.unexpected, self.world.unexpected
