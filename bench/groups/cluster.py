"""Three combined nodes with Kafka's default group configuration, and topics on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.products import NODES, ODRADEK, cluster_of_three
from bench.workloads.sides import REPLICATED
from odradek.client.address import Address
from odradek.client.admin import Admin
from tests.cluster.real_cluster import RealCluster, wait_for


@contextmanager
def three_brokers() -> Iterator[RealCluster]:
    with cluster_of_three(ODRADEK, Path(), REPLICATED) as cluster:
        yield cluster


def addresses(cluster: RealCluster) -> list[Address]:
    return [node.address for node in cluster.running]


def create_topic(cluster: RealCluster, topic: str, partitions: int) -> None:
    """Returns when all replicas of every partition are in sync."""
    with cluster.client(timeout_s=60) as client:
        Admin(client).create_topic(topic, partitions=partitions, replication_factor=len(NODES))
    wait_for(f"the replicas of {topic}", lambda: in_sync(cluster, topic), 120)


def in_sync(cluster: RealCluster, topic: str) -> bool:
    with cluster.client() as client:
        # The broker may not have applied the topic yet.
        found = client.layout(None).topics.get(topic)
    return found is not None and all(len(one.isr) == len(NODES) for one in found.partitions)
