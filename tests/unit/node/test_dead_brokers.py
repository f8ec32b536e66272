"""The detection of dead processes on a virtual network: real connects, timers and stalls, on virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import ControllerResult
from odradek.core.controller.controller import Controller
from odradek.core.metadata.records import Endpoint
from odradek.node.dead_brokers import DeadBrokers
from odradek.node.reached_brokers import ReachedBrokers
from odradek.sim.computer import Computer, Ports
from odradek.sim.world import World, simulated_world
from tests.unit.core.controller.cluster import PROPERTIES, Cluster

T = TypeVar("T")
PORT = 9092
GRACE = 0.3


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

    def __init__(self, world: World, settings: str = "", *, rejected: int | None = None) -> None:
        """A firewall rejects connections from the controller to the port of broker `rejected`."""
        self.world = world
        self.settings = settings
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
        config = NodeConfig.load(PROPERTIES.replace("node.id=1", "node.id=9").replace("1@", "9@") + self.settings, "f")
        self.reached = ReachedBrokers(config, clock=ports.clock)
        self.reached.start(self.cluster.image)
        self.detection = DeadBrokers(
            config, self, self.reached, clock=ports.clock, majority_fetched_within=lambda seconds: self.has_majority
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


@pytest.fixture
def world() -> Iterator[World]:
    with simulated_world(7) as one:
        yield one


def test_killed_broker_is_fenced_after_the_grace_period(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.kill(2)
    world.run_for(GRACE - 0.05)
    assert stage.fenced == []
    world.run_for(0.1)
    assert stage.fenced == [2]
    stage.check()


def test_closed_connection_alone_does_not_fence(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.do(stage.connections[2].close)
    world.run_for(20)
    assert stage.fenced == []


def test_machine_without_power_keeps_its_session(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.computers[2].lose_power()
    stage.do(stage.connections[2].close)
    world.run_for(20)
    assert stage.fenced == []
    stage.check()


def test_connection_closed_by_the_controller_is_ignored(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.computers[2].kill()
    stage.do(lambda: stage.connections[2].close(here=True))
    world.run_for(20)
    assert stage.fenced == []


def test_broker_that_died_with_the_controller_is_fenced_by_the_next(world: World) -> None:
    stage = Stage(world)
    stage.computers[2].kill()
    stage.activate()
    stage.beat(1)
    stage.beat(3)
    world.run_for(2 * GRACE - 0.05)
    assert stage.fenced == []
    world.run_for(0.1)
    assert stage.fenced == [2]


def test_refusal_by_a_firewall_does_not_fence(world: World) -> None:
    stage = Stage(world, rejected=2)
    stage.serve()
    stage.do(stage.connections[2].close)
    world.run_for(20)
    assert stage.fenced == []
    stage.check()


def test_broker_behind_a_firewall_that_dies_keeps_its_session(world: World) -> None:
    stage = Stage(world, rejected=2)
    stage.serve()
    stage.kill(2)
    world.run_for(20)
    assert stage.fenced == []


def test_broker_that_a_new_active_controller_never_reached_keeps_its_session(world: World) -> None:
    stage = Stage(world, rejected=2)
    stage.activate()
    stage.beat(1)
    stage.beat(3)
    world.run_for(20)
    assert stage.fenced == []


def test_controller_connects_once_to_each_registration() -> None:
    with simulated_world(7, keep_trace=True) as world:
        stage = Stage(world)
        world.run_for(60)
        assert world.trace.events is not None
        connects = [one for one in world.trace.events if one.who == "controller" and "connects to" in one.what]
        assert len(connects) == len(stage.computers)
        stage.check()


def test_restarted_broker_is_not_fenced(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.kill(2)
    world.run_for(0.1)
    stage.listen(stage.computers[2])
    world.run_for(20)
    assert stage.fenced == []


def test_heartbeat_on_a_new_connection_ends_the_suspicion(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.kill(2)
    world.run_for(0.2)
    stage.connections[2] = Connection()
    stage.beat(2)
    world.run_for(20)
    assert stage.fenced == []


def test_connection_has_one_close_listener(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    for _ in range(5):
        stage.beat(2)
    assert len(stage.connections[2].listeners) == 1


def test_stalled_controller_restarts_the_grace_period(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.kill(2)
    world.run_for(0.2)
    stage.controller.pause(5)
    world.run_for(5.0 + GRACE - 0.05)
    assert stage.fenced == []
    world.run_for(0.2)
    assert stage.fenced == [2]


def test_a_controller_without_its_majority_waits(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.has_majority = False
    stage.kill(2)
    world.run_for(5)
    assert stage.fenced == []
    stage.has_majority = True
    world.run_for(0.1)
    assert stage.fenced == [2]


def test_resigned_controller_fences_nothing(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.kill(2)
    world.run_for(0.2)
    stage.do(lambda: stage.detection.on_activation(None))
    world.run_for(20)
    stage.beat(1)
    assert stage.fenced == []
    # Connections of that time say nothing to the next one.
    stage.activate()
    for broker_id in (1, 2, 3):
        stage.connections[broker_id] = Connection()
        stage.beat(broker_id)
    world.run_for(20)
    assert stage.fenced == []
    stage.check()


def test_failed_fence_is_not_retried(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.refuses_commands = True
    stage.kill(2)
    world.run_for(5)
    assert stage.fenced == []
    stage.check()


def test_detection_can_be_disabled(world: World) -> None:
    stage = Stage(world, "broker.disconnect.grace.ms=0\n")
    stage.serve()
    stage.kill(2)
    world.run_for(20)
    assert stage.fenced == []
    assert stage.connections[2].listeners == []
