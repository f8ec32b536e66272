"""What faults do that know who leads, and what copies hold."""

from itertools import permutations

import pytest

from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.cluster import Cluster
from odradek.sim.fault_injection import inject
from odradek.sim.faults import Fault
from odradek.sim.layout import THREE_COMBINED, plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.replica_recorder import Led, ReplicaRecorder
from odradek.sim.triggers import SHRINK
from odradek.sim.world import World
from odradek.storage.log.partition_log import PartitionLog

PARTITION = TopicPartition("orders0", 0)
NOW_MS = 1_750_000_000_000


class Node1Leads(ReplicaRecorder):
    def leaders(self) -> list[Led]:
        return [Led(PARTITION, "node1", ("node2", "node3"))]


@pytest.fixture
def cluster(world: World) -> Cluster:
    plan = plan_nodes(THREE_COMBINED, world.random("cluster"))
    nodes = [NodeHost(world, node) for node in plan.nodes]
    cluster = Cluster(world, nodes)
    cluster.replicas = Node1Leads(world, nodes, [PARTITION], is_synced=False)
    return cluster


def fault(kind: str, node: str = "node2") -> Fault:
    return Fault(kind=kind, node=node, at_seconds=0.0, lasts_seconds=1.0, amount=0.5)


def blocked_links(cluster: Cluster) -> set[tuple[str, str]]:
    network = cluster.world.network
    return {pair for pair in permutations(cluster.nodes, 2) if network.link(*pair).is_blocked}


def test_deposed_isolates_a_leader_of_any_partition(cluster: Cluster) -> None:
    inject(fault("deposed"), cluster)
    cluster.world.run_for(2.5)
    assert blocked_links(cluster) == {pair for pair in permutations(cluster.nodes, 2) if "node1" in pair}
    cluster.world.run_for(1.0)
    assert blocked_links(cluster) == set()


def test_crash_after_shrink_isolates_and_crashes_the_leader(cluster: Cluster) -> None:
    inject(fault("crash-after-shrink"), cluster)
    lost = {("node1", "node2"), ("node2", "node1")}
    assert blocked_links(cluster) == lost
    cluster.triggers.fire(SHRINK, "node1")
    assert blocked_links(cluster) == {*lost, ("node1", "node3")}


def test_no_bit_is_flipped_on_a_stopped_node(cluster: Cluster) -> None:
    inject(fault("flipped-record"), cluster)
    assert not cluster.nodes["node2"].computer.past_processes


def open_log(node: NodeHost) -> PartitionLog:
    disk = node.computer.new_process().disk
    disk.make_dirs(f"{node.config.log_dirs[0]}/orders0-0")
    return PartitionLog.open(
        disk,
        f"{node.config.log_dirs[0]}/orders0-0",
        topic_partition=PARTITION,
        topic_id=None,
        config=TopicConfig.resolve({"internal.segment.bytes": "300"}),
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.999])
def test_recovery_finds_the_flipped_bit(cluster: Cluster, share: float) -> None:
    node, replicas = cluster.nodes["node1"], cluster.replicas
    assert replicas is not None
    log = open_log(node)
    for offset in range(12):
        data = bytearray(build_batch([Record(None, b"x" * 50, NOW_MS)], base_offset=offset, leader_epoch=1))
        log.append_as_follower(data, parse_batches(data), now_ms=NOW_MS)
    start_of_last = log.segments[-1].base_offset
    assert 0 < start_of_last < 11
    assert len(list(replicas.flip_bit(node, share))) == 1
    found = open_log(node)
    assert found.log_end_offset == start_of_last + int(share * (12 - start_of_last))
