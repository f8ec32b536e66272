"""Copies of the disks of running brokers, started on other computers."""

import pytest

from odradek.sim.cluster import Cluster
from odradek.sim.fault_injection import inject
from odradek.sim.faults import Fault
from odradek.sim.layout import THREE_CONTROLLERS_TWO_BROKERS, plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.world import World

LAST_BROKER = 0.9


@pytest.fixture
def cluster(world: World) -> Cluster:
    properties = {"broker.session.timeout.ms": "9000", "broker.disconnect.grace.ms": "300"}
    plan = plan_nodes(THREE_CONTROLLERS_TWO_BROKERS, world.random("cluster"), properties)
    nodes = [NodeHost(world, node) for node in plan.nodes]
    for node in nodes:
        node.format(plan.initial_controllers)
        node.start()
    assert world.run_for(30, lambda: all(node.is_ready for node in nodes))
    return Cluster(world, nodes)


def clone(cluster: Cluster, amount: float = LAST_BROKER) -> None:
    inject(Fault(kind="cloned", node="node1", at_seconds=0.0, lasts_seconds=0.1, amount=amount), cluster)


def is_clone_running(cluster: Cluster) -> bool:
    return cluster.world.computers["node5-clone"].is_running


def major_events(cluster: Cluster, who: str) -> str:
    assert cluster.world.trace.events is not None
    return "\n".join(event.what for event in cluster.world.trace.events if event.who == who and event.is_major)


@pytest.mark.parametrize("amount", [0.9, 0.901], ids=["the endpoint of the original", "its own endpoint"])
def test_a_clone_of_a_running_broker_is_rejected(cluster: Cluster, amount: float) -> None:
    clone(cluster, amount)
    cluster.world.run_for(2.5)
    assert is_clone_running(cluster)
    assert "another broker with node.id=5 is running" in major_events(cluster, "node5-clone")
    assert cluster.nodes["node5"].is_ready
    cluster.world.run_for(1)
    assert not is_clone_running(cluster)
    assert not cluster.world.unexpected


def test_a_clone_ends_with_its_original(cluster: Cluster) -> None:
    clone(cluster)
    cluster.world.run_for(1)
    cluster.nodes["node5"].computer.kill()
    assert not is_clone_running(cluster)


def test_a_clone_ends_with_the_faults(cluster: Cluster) -> None:
    clone(cluster)
    cluster.world.run_for(1)
    cluster.heal()
    assert not is_clone_running(cluster)


def test_a_broker_that_does_not_run_is_not_cloned(cluster: Cluster) -> None:
    cluster.nodes["node5"].computer.kill()
    clone(cluster)
    assert "node5-clone" not in cluster.world.computers
