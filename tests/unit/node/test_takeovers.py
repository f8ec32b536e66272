"""Another process registers with the ID and the directory of broker 2: the controller probes the registered one."""

import asyncio
from collections.abc import Iterator
from uuid import UUID

import pytest

from odradek.core.controller.commands import DeadProcess
from odradek.core.metadata.records import Endpoint
from odradek.sim.world import World, simulated_world
from tests.unit.core.controller.cluster import directory_of
from tests.unit.node.brokers_stage import PORT, Stage

OTHER_PORT = 9999


@pytest.fixture
def world() -> Iterator[World]:
    with simulated_world(7) as one:
        yield one


def take_over(
    stage: Stage, *, host: str = "b2", port: int = PORT, source: str | None = "b2", directory: UUID | None = None
) -> DeadProcess | None:
    """The result of a registration from computer `source`, or from within the controller's process."""
    registration = stage.cluster.registration(
        2,
        incarnation=2,
        endpoints=(Endpoint(name="PLAINTEXT", host=host, port=port, security_protocol=0),),
        directories=(directory or directory_of(2),),
    )
    peer_host = None if source is None else stage.world.network.address_of(source)
    found: list[DeadProcess | None] = []

    async def find() -> None:
        controller = stage.cluster.controller
        found.append(await stage.takeovers.find_dead_process(controller, registration, peer_host))

    stage.cluster.controller.start_sessions(stage.controller_now)
    stage.do(lambda: asyncio.ensure_future(find()))
    assert stage.world.run_for(5, lambda: bool(found))
    stage.check()
    return found[0]


def test_killed_broker_restarts_at_once(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    epoch = stage.cluster.image.brokers[2].epoch
    stage.kill(2)
    dead = take_over(stage)
    assert dead is not None
    assert dead.broker_epoch == epoch


def test_killed_broker_restarts_at_once_on_another_computer(world: World) -> None:
    """It was reached before it died, and its disk has moved."""
    stage = Stage(world)
    stage.serve()
    stage.kill(2)
    assert take_over(stage, host="b3", port=OTHER_PORT, source="b3") is not None


@pytest.mark.parametrize(
    ("host", "port", "source"),
    [("b2", OTHER_PORT, "b2"), ("b3", OTHER_PORT, "b3"), ("b2", PORT, "b3")],
    ids=["another port of the computer", "another computer", "the same endpoint from another computer"],
)
def test_copy_of_a_live_broker_is_no_takeover(world: World, host: str, port: int, source: str) -> None:
    stage = Stage(world)
    stage.serve()
    assert take_over(stage, host=host, port=port, source=source) is None


def test_live_broker_whose_connection_broke_keeps_its_id(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.do(stage.connections[2].close)
    assert take_over(stage, port=OTHER_PORT) is None


def test_open_connection_of_heartbeats_outweighs_a_refused_probe(world: World) -> None:
    """The probe may reach the process that registers, for example if the host name has moved to its computer."""
    stage = Stage(world)
    stage.serve()
    stage.computers[2].kill()
    assert take_over(stage) is None


def test_paused_broker_keeps_its_id(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.do(stage.connections[2].close)
    stage.computers[2].pause(10)
    assert take_over(stage, port=OTHER_PORT) is None


def test_broker_without_power_keeps_its_id_until_its_session_ends(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.computers[2].lose_power()
    stage.do(stage.connections[2].close)
    assert take_over(stage, host="b3", port=OTHER_PORT, source="b3") is None


class TestNeverReached:
    def test_refusal_by_a_firewall_is_no_proof(self, world: World) -> None:
        stage = Stage(world, rejected=2)
        stage.serve()
        stage.do(stage.connections[2].close)
        assert take_over(stage, port=OTHER_PORT) is None
        assert take_over(stage, host="b2", source="b3") is None

    def test_process_at_the_same_endpoint_replaces_the_dead_one(self, world: World) -> None:
        """After all nodes were killed, the new active controller has reached none of them."""
        stage = Stage(world, rejected=2)
        stage.activate()
        stage.computers[2].kill()
        assert take_over(stage) is not None


class TestOwnNode:
    def test_other_process_never_replaces_the_controllers_own_broker(self, world: World) -> None:
        stage = Stage(world, node_id=2)
        stage.activate()
        stage.computers[2].kill()
        assert take_over(stage) is None

    def test_own_broker_registers_after_a_restart(self, world: World) -> None:
        stage = Stage(world, node_id=2)
        stage.activate()
        stage.computers[2].lose_power()
        assert take_over(stage, source=None) is not None

    def test_own_broker_does_not_replace_a_process_that_answers(self, world: World) -> None:
        stage = Stage(world, node_id=2)
        stage.activate()
        assert take_over(stage, source=None) is None

    def test_only_voter_needs_no_probe(self, world: World) -> None:
        stage = Stage(world, node_id=2)
        stage.is_only_voter = True
        stage.activate()
        assert take_over(stage, source=None) is not None


def test_other_directories_are_not_probed(world: World) -> None:
    stage = Stage(world)
    stage.serve()
    stage.kill(2)
    assert take_over(stage, directory=UUID(int=5000)) is None


def test_zero_disconnect_grace_disables_takeovers(world: World) -> None:
    stage = Stage(world, "broker.disconnect.grace.ms=0\n")
    stage.serve()
    stage.kill(2)
    assert take_over(stage) is None
