"""Sessions that end and a log that grows by themselves, on virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import ControllerResult
from odradek.core.controller.controller import Controller
from odradek.core.controller.delegation_tokens import SWEPT_AT_ONCE_MAX
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.core.metadata.records import DelegationTokenRecord
from odradek.node.controller_tasks import ControllerTasks
from odradek.sim.computer import Ports
from odradek.sim.world import World, simulated_world
from tests.unit.core.controller.cluster import PROPERTIES, Cluster

T = TypeVar("T")


class Stage:
    def __init__(self, world: World, settings: str = "") -> None:
        self.world = world
        self.settings = settings
        self.cluster = Cluster(brokers=3)
        self.is_active = True
        self.commands = 0
        self.faults: list[str] = []
        self.duties: ControllerTasks
        self.computer = world.add_computer("controller")
        self.computer.run(self._control)
        world.run_for(0.01)

    async def _control(self, ports: Ports) -> int:
        self.clock = ports.clock
        config = NodeConfig.load(PROPERTIES + self.settings, "f")
        self.duties = ControllerTasks(config, self, clock=ports.clock, on_fault=self.on_fault)
        await asyncio.Event().wait()
        return 0

    async def execute_own(self, command: Callable[[Controller], ControllerResult[T]]) -> T:
        if not self.is_active:
            raise KafkaError(ErrorCode.not_controller)
        self.commands += 1
        return self.cluster.take(command(self.cluster.controller))

    def on_fault(self, what: str, error: BaseException) -> None:
        self.faults.append(f"{what}: {error}")

    def do(self, act: Callable[[], object]) -> None:
        assert self.computer.process is not None
        self.computer.process.loop.call_soon(act)
        self.world.run_for(0.001)

    def activate(self) -> None:
        def begin() -> None:
            self.cluster.now = self.clock.monotonic()
            self.cluster.controller.start_sessions(self.cluster.now)
            self.duties.on_activation(self.cluster.controller)

        self.do(begin)

    def beat(self, *broker_ids: int) -> None:
        def accept() -> None:
            self.cluster.now = self.clock.monotonic()
            for broker_id in broker_ids:
                self.cluster.beat(broker_id)

        self.do(accept)

    @property
    def fenced(self) -> list[int]:
        return [broker.id for broker in self.cluster.image.brokers.values() if broker.fenced]


@pytest.fixture
def world() -> Iterator[World]:
    with simulated_world(7) as one:
        yield one


ASLEEP = "metadata.max.idle.interval.ms=0\n"


def test_expired_session_fences_the_broker(world: World) -> None:
    stage = Stage(world, ASLEEP)
    stage.activate()
    world.run_for(5)
    stage.beat(1, 3)
    world.run_for(3.9)
    assert stage.fenced == []
    world.run_for(0.2)
    assert stage.fenced == [2]
    world.run_for(5)
    assert stage.fenced == [1, 2, 3]


def test_unfenced_broker_is_monitored_again(world: World) -> None:
    stage = Stage(world, ASLEEP)
    stage.activate()
    world.run_for(30)
    assert stage.fenced == [1, 2, 3]
    stage.beat(2)
    assert stage.fenced == [1, 3]
    world.run_for(8.9)
    assert stage.fenced == [1, 3]
    world.run_for(9.2)
    assert stage.fenced == [1, 2, 3]


def test_sessions_are_checked_only_when_one_may_expire(world: World) -> None:
    stage = Stage(world, ASLEEP)
    stage.activate()
    for _ in range(30):
        world.run_for(2)
        stage.beat(1, 2, 3)
    assert stage.fenced == []
    assert stage.commands < 20


def test_stalled_controller_processes_heartbeats_before_expiry(world: World) -> None:
    stage = Stage(world, ASLEEP)
    stage.activate()
    world.run_for(1)
    stage.computer.pause(30)
    world.run_for(30.5)
    stage.beat(1, 2)
    world.run_for(1)
    assert stage.fenced == []
    world.run_for(1)
    assert stage.fenced == [3]


def test_unexpected_error_makes_the_controller_resign(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(controller: Controller, now: float) -> ControllerResult[int | None]:
        raise KeyError("unexpected")

    monkeypatch.setattr(Controller, "expire_sessions", fail)
    stage = Stage(world, ASLEEP)
    stage.activate()
    world.run_for(10)
    assert stage.faults == ["session expiry: 'unexpected'"]


def test_no_op_records_are_written_while_idle(world: World) -> None:
    stage = Stage(world)
    stage.activate()
    before = stage.cluster.image.offset
    world.run_for(5.1)
    assert stage.cluster.image.offset == before + 10


def test_tasks_stop_with_the_resignation(world: World) -> None:
    stage = Stage(world)
    stage.activate()
    world.run_for(1)
    stage.do(lambda: stage.duties.on_activation(None))
    count = stage.commands
    world.run_for(60)
    assert (stage.commands, stage.fenced) == (count, [])
    assert not world.unexpected


def test_tasks_stop_on_not_controller(world: World) -> None:
    stage = Stage(world)
    stage.activate()
    stage.is_active = False
    world.run_for(60)
    assert stage.commands == 0
    assert not world.unexpected
    stage.is_active = True
    stage.activate()
    world.run_for(1.1)
    assert stage.commands == 2


def test_immediate_resignation_stops_the_tasks(world: World) -> None:
    stage = Stage(world)

    def flash() -> None:
        stage.duties.on_activation(stage.cluster.controller)
        stage.duties.on_activation(None)

    stage.do(flash)
    world.run_for(5)
    assert stage.commands == 0
    assert not world.unexpected


class TestPeriodicElections:
    def lose_and_regain(self, stage: Stage) -> None:
        """Broker 1 has come back and caught up, and another leads its partition."""
        stage.cluster.create("orders", assignments={0: (1, 2, 3)})
        stage.cluster.beat(1, want_fence=True)
        stage.cluster.beat(1)
        stage.cluster.rejoin("orders")
        assert stage.cluster.partition("orders").leader == 2

    def keep_alive_for(self, stage: Stage, seconds: int) -> None:
        for _ in range(seconds // 5):
            stage.world.run_for(5)
            stage.beat(1, 2, 3)

    def test_preferred_leaders_are_elected_periodically(self, world: World) -> None:
        stage = Stage(world, ASLEEP + "leader.imbalance.check.interval.seconds=60\n")
        stage.activate()
        self.lose_and_regain(stage)
        self.keep_alive_for(stage, 55)
        assert stage.cluster.partition("orders").leader == 2
        self.keep_alive_for(stage, 10)
        assert stage.cluster.partition("orders").leader == 1

    def test_leader_rebalancing_can_be_disabled(self, world: World) -> None:
        stage = Stage(
            world, ASLEEP + "leader.imbalance.check.interval.seconds=60\nauto.leader.rebalance.enable=false\n"
        )
        stage.activate()
        self.lose_and_regain(stage)
        self.keep_alive_for(stage, 130)
        assert stage.cluster.partition("orders").leader == 2

    def test_resigned_controller_elects_no_leaders(self, world: World) -> None:
        stage = Stage(world, ASLEEP + "leader.imbalance.check.interval.seconds=60\n")
        stage.activate()
        self.lose_and_regain(stage)
        stage.do(lambda: stage.duties.on_activation(None))
        self.keep_alive_for(stage, 130)
        assert stage.cluster.partition("orders").leader == 2

    def test_unclean_leaders_are_elected_periodically(self, world: World) -> None:
        stage = Stage(world, ASLEEP + "unclean.leader.election.interval.ms=60000\n")
        stage.activate()
        cluster = stage.cluster
        cluster.create("orders", assignments={0: (1, 2)})
        cluster.beat(1, want_fence=True)
        cluster.beat(2, want_fence=True)
        cluster.beat(1)
        assert not cluster.partition("orders").has_leader
        allow = Change("unclean.leader.election.enable", Operation.SET, "true")
        cluster.take(cluster.controller.change_configs({(RESOURCE_TOPIC, "orders"): [allow]}, validate_only=False))
        for _ in range(13):
            world.run_for(5)
            stage.beat(1, 3)
        assert cluster.partition("orders").leader == 1


def test_expired_delegation_tokens_are_removed(world: World) -> None:
    stage = Stage(world, ASLEEP + "delegation.token.expiry.check.interval.ms=60000\n")
    now_ms = stage.clock.wall_ms()

    def token(token_id: str, expiry_ms: int) -> DelegationTokenRecord:
        return DelegationTokenRecord(
            owner="User:alice",
            requester="User:alice",
            renewers=(),
            issue_timestamp=now_ms,
            max_timestamp=now_ms + 1_000_000,
            expiration_timestamp=expiry_ms,
            token_id=token_id,
        )

    many = tuple(token(f"early-{number}", now_ms + 50_000) for number in range(SWEPT_AT_ONCE_MAX + 1))
    stage.cluster.replay((*many, token("late", now_ms + 90_000)))
    stage.activate()
    world.run_for(59)
    assert len(stage.cluster.image.delegation_tokens) == len(many) + 1
    world.run_for(2)
    assert set(stage.cluster.image.delegation_tokens) == {"late"}
    world.run_for(60)
    assert not stage.cluster.image.delegation_tokens
    assert not stage.faults
