"""Network partitions between nodes in threads and in processes."""

import time

import pytest

from odradek.testing import Cluster, ClusterError
from tests.testing.clients import SECONDS_MAX, consume, create_topic, produce, texts

QUICK_SESSIONS = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}


def is_led_by_another(cluster: Cluster, leader: int) -> bool:
    try:
        return cluster.leader("orders") != leader
    except ClusterError:
        # There may be no leader for a moment.
        return False


@pytest.mark.parametrize(("controllers", "processes"), [(0, False), (0, True), (1, False)])
def test_a_partitioned_leader_is_replaced_and_rejoins(controllers: int, processes: bool) -> None:
    with Cluster(controllers=controllers, processes=processes, properties=QUICK_SESSIONS) as cluster:
        create_topic(cluster, "orders")
        produce(cluster, "orders", texts(0, 10))
        leader = cluster.leader("orders")
        cluster.partition([leader], {*cluster.brokers, *cluster.controllers} - {leader})
        deadline = time.monotonic() + SECONDS_MAX
        while not is_led_by_another(cluster, leader):
            assert time.monotonic() < deadline, "no replica became leader"
            time.sleep(0.05)
        with pytest.raises(ClusterError, match="not healthy"):
            cluster.wait_until_healthy(0.5)
        cluster.heal()
        cluster.wait_until_healthy()
        produce(cluster, "orders", texts(10, 20))
        assert consume(cluster, "orders", 20) == texts(0, 20)
