"""The detection of dead processes on a virtual network: real connects, timers and stalls, on virtual time."""

from collections.abc import Iterator

import pytest

from odradek.sim.world import World, simulated_world
from tests.unit.node.brokers_stage import Connection, Stage

GRACE = 0.3


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
