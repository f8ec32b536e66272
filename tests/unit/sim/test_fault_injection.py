"""Which links the network faults block, and that they end."""

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


def blocked_links(cluster: Cluster) -> set[tuple[str, str]]:
    network = cluster.world.network
    return {pair for pair in permutations(cluster.nodes, 2) if network.link(*pair).is_blocked}


@pytest.mark.parametrize(
    ("kind", "blocked"),
    [
        ("isolated", {("node1", "node2"), ("node2", "node1"), ("node1", "node3"), ("node3", "node1")}),
        ("outbound-blocked", {("node1", "node2"), ("node1", "node3")}),
        ("inbound-blocked", {("node2", "node1"), ("node3", "node1")}),
        ("bridge", {("node2", "node3"), ("node3", "node2")}),
    ],
)
def test_network_partitions_block_their_links_and_recover(
    cluster: Cluster, kind: str, blocked: set[tuple[str, str]]
) -> None:
    inject(Fault(kind=kind, node="node1", at_seconds=0.0, lasts_seconds=2.0), cluster)
    assert blocked_links(cluster) == blocked
    cluster.world.run_for(2.5)
    assert blocked_links(cluster) == set()


def test_a_flapping_link_is_blocked_and_unblocked_repeatedly(cluster: Cluster) -> None:
    inject(Fault(kind="flapping", node="node1", peer="node2", at_seconds=0.0, lasts_seconds=2.0, amount=0.5), cluster)
    seen = []
    for _ in range(6):
        cluster.world.run_for(0.25)
        seen.append(bool(blocked_links(cluster)))
        cluster.world.run_for(0.25)
    assert seen == [True, False, True, False, True, False]


def test_a_log_is_not_shortened_unless_the_other_voters_have_it(cluster: Cluster) -> None:
    inject(Fault(kind="shortened-log", node="node1", at_seconds=0.0, lasts_seconds=1.0), cluster)
    assert not cluster.nodes["node1"].computer.past_processes
