"""What the faults between nodes cut, and that they pass."""

from itertools import permutations

import pytest

from odradek.sim.cluster import Cluster
from odradek.sim.fault_injection import inject
from odradek.sim.faults import Fault
from odradek.sim.layout import THREE_COMBINED, plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.world import World


@pytest.fixture
def cluster(world: World) -> Cluster:
    plan = plan_nodes(THREE_COMBINED, world.random("cluster"))
    return Cluster(world, [NodeHost(world, node) for node in plan.nodes])


def cut_links(cluster: Cluster) -> set[tuple[str, str]]:
    network = cluster.world.network
    return {pair for pair in permutations(cluster.nodes, 2) if network.link(*pair).is_blocked}


@pytest.mark.parametrize(
    ("kind", "cut"),
    [
        ("isolated", {("node1", "node2"), ("node2", "node1"), ("node1", "node3"), ("node3", "node1")}),
        ("mute", {("node1", "node2"), ("node1", "node3")}),
        ("deaf", {("node2", "node1"), ("node3", "node1")}),
        ("bridge", {("node2", "node3"), ("node3", "node2")}),
    ],
)
def test_partitions_cut_what_they_say_and_heal(cluster: Cluster, kind: str, cut: set[tuple[str, str]]) -> None:
    inject(Fault(kind=kind, node="node1", at_seconds=0.0, lasts_seconds=2.0), cluster)
    assert cut_links(cluster) == cut
    cluster.world.run_for(2.5)
    assert cut_links(cluster) == set()


def test_a_flapping_link_comes_and_goes(cluster: Cluster) -> None:
    inject(Fault(kind="flapping", node="node1", peer="node2", at_seconds=0.0, lasts_seconds=2.0, amount=0.5), cluster)
    seen = []
    for _ in range(6):
        cluster.world.run_for(0.25)
        seen.append(bool(cut_links(cluster)))
        cluster.world.run_for(0.25)
    assert seen == [True, False, True, False, True, False]


def test_a_log_is_not_shortened_where_others_do_not_have_it(cluster: Cluster) -> None:
    inject(Fault(kind="shortened-log", node="node1", at_seconds=0.0, lasts_seconds=1.0), cluster)
    assert not cluster.nodes["node1"].computer.past_processes
