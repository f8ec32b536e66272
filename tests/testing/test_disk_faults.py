"""Full and slow disks of nodes in threads and in processes."""

import time

import pytest

from odradek.testing import Cluster, ClusterError
from tests.testing.clients import consume, create_topic, produce, texts

# Only explicit writes reach the disk.
NO_WRITES_UNASKED = {"metadata.max.idle.interval.ms": "0", "replica.high.watermark.checkpoint.interval.ms": "600000"}


@pytest.fixture(params=[False, True], ids=["threads", "processes"])
def processes(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_full_disk_stops_the_broker_but_loses_no_records(processes: bool) -> None:
    with Cluster(processes=processes) as cluster:
        create_topic(cluster, "orders")
        produce(cluster, "orders", texts(0, 10))
        leader = cluster.leader("orders")
        cluster.fill_disk(leader)
        produce(cluster, "orders", texts(10, 20))
        assert cluster.leader("orders") != leader
        with pytest.raises(ClusterError, match=rf"(?s)node {leader} has exited: .*No space left on device"):
            cluster.wait_until_healthy()
        with pytest.raises(ClusterError, match="No space left on device"):
            cluster.restart(leader)
        cluster.free_disk(leader)
        cluster.restart(leader)
        cluster.wait_until_healthy()
        assert consume(cluster, "orders", 20) == texts(0, 20)


def test_a_slow_disk_delays_writes(processes: bool) -> None:
    with Cluster(brokers=1, processes=processes) as cluster:
        create_topic(cluster, "orders", replicas=1)
        cluster.slow_disk(1, delay_ms=300)
        began_at = time.monotonic()
        produce(cluster, "orders", ["slow"])
        assert time.monotonic() - began_at > 0.3
        cluster.slow_disk(1, delay_ms=0)
        assert consume(cluster, "orders", 1) == ["slow"]


def test_faults_of_a_paused_node_apply_when_it_resumes(processes: bool) -> None:
    with Cluster(brokers=1, processes=processes, properties=NO_WRITES_UNASKED) as cluster:
        create_topic(cluster, "orders", replicas=1)
        cluster.pause(1)
        cluster.slow_disk(1, delay_ms=300)
        cluster.slow_disk(1, delay_ms=0)
        cluster.fill_disk(1)
        cluster.resume(1)
        cluster.free_disk(1)
        produce(cluster, "orders", texts(0, 10))
        assert consume(cluster, "orders", 10) == texts(0, 10)
