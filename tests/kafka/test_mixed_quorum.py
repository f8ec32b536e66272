"""Odradek's and Apache Kafka's nodes in one quorum: each votes for, follows, leads and forwards to the other.

This proves that controllers and brokers speak Kafka's own protocol. Clients change metadata through every node all the
time, while leaders of both products are killed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.client.admin import Admin
from tests.cluster.metadata_load import MetadataLoad
from tests.cluster.metadata_views import assert_equal_everywhere, assert_holds
from tests.cluster.real_cluster import KafkaMember, Member, OdradekMember, RealCluster, real_cluster, roles_of, wait_for

WHOLE_S_MAX = 90.0
"""Apache Kafka takes seconds to start, and rejects a broker's registration until its old session has expired."""
NODES = (1, 2, 3)


@contextmanager
def mixed_cluster(directory: Path, libs: Path, kafka_ids: set[int]) -> Iterator[RealCluster]:
    def new_member(path: Path) -> Member:
        is_kafka = int(path.name.removeprefix("node-")) in kafka_ids
        return KafkaMember(libs, path) if is_kafka else OdradekMember(path)

    with real_cluster(directory, roles_of(combined=NODES), new_member=new_member) as cluster:
        yield cluster


def change_through_each(cluster: RealCluster, when: str) -> None:
    for node in cluster.brokers:
        if node.is_running:
            with cluster.client(node.node_id, timeout_s=30.0) as client:
                Admin(client).create_topic(f"{when}-through-{node.node_id}", partitions=3, replication_factor=1)


def kill_leader(cluster: RealCluster) -> Member:
    """Kill the active controller and return it, once its successor acknowledges changes through every live node."""
    former, epoch = cluster.leadership()
    former.kill()
    wait_for("another leader", lambda: cluster.active_controller() is not former)
    assert cluster.quorum_status().leader_epoch > epoch
    change_through_each(cluster, f"without-{former.node_id}")
    return former


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "kafka_ids", [{3}, pytest.param({2, 3}, marks=pytest.mark.tier("proof"))], ids=["one of Kafka's", "two of Kafka's"]
)
def test_odradek_and_kafka_controllers_lead_and_follow_each_other(
    apache_kafka_libs: Path, tmp_path: Path, kafka_ids: set[int]
) -> None:
    products_that_led = set()
    with mixed_cluster(tmp_path, apache_kafka_libs, kafka_ids) as cluster:
        with MetadataLoad([node.address for node in cluster.brokers], timeout_s=60.0) as load:
            change_through_each(cluster, "at-first")
            for turn in range(2):
                products_that_led.add(cluster.active_controller().name)
                former = kill_leader(cluster)
                products_that_led.add(cluster.active_controller().name)
                former.start()
                cluster.wait_until_whole(WHOLE_S_MAX)
                change_through_each(cluster, f"after-{turn}")
        assert {voter.id for voter in cluster.quorum_status().voters} == set(NODES)
        view = assert_equal_everywhere(cluster, 30.0)
        assert_holds(view, load.expected)
        assert load.acknowledged > 50
    if len(kafka_ids) == 2:
        # Of two killed leaders and their successors, at least one is Apache Kafka.
        assert "kafka" in products_that_led
