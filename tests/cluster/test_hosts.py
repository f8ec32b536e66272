"""Brokers on three hosts, which are loopback addresses: replicas are spread over hosts, and a host fails as one."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.ids import NO_LEADER
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.reassignments import Reassignments
from tests.cluster.real_cluster import RealCluster, real_cluster, roles_of, wait_for
from tests.wire.up_process import call

CONTROLLER = 1
HOSTS = {2: "127.0.0.2", 3: "127.0.0.2", 4: "127.0.0.2", 5: "127.0.0.2", 6: "127.0.0.3", 7: "127.0.0.4"}
LARGE_HOST = (2, 3, 4, 5)
"""More than half of all brokers."""
WITNESS = 6
SESSION_S = 9.0
SETTINGS = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "2",
}
EARLY_S_MAX = SESSION_S / 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    layout = roles_of(controllers=(CONTROLLER,), brokers=tuple(HOSTS))
    with real_cluster(tmp_path_factory.mktemp("hosts"), layout, properties=SETTINGS, hosts=HOSTS) as cluster:
        yield cluster


def test_replicas_of_a_new_topic_are_on_different_hosts(cluster: RealCluster) -> None:
    with cluster.client() as client:
        Admin(client).create_topic("orders", partitions=12, replication_factor=3)
        partitions = client.topics(["orders"])["orders"].partitions
    for partition in partitions:
        assert len({HOSTS[replica] for replica in partition.replicas}) == 3
    assert {partition.replicas[0] for partition in partitions} == set(HOSTS)


def test_reassignment_plan_separates_replicas_of_one_host(cluster: RealCluster, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic("skewed", 2, replica_assignment=[[2, 3], [4, 5]])
    admin.create_topics([topic])["skewed"].result(20)
    file = tmp_path / "plan.json"
    arguments = ("--even", "--topic", "skewed", "--out", str(file), "-b", cluster.bootstrap)
    finished = call("reassign", "plan", *arguments)
    assert finished.returncode == 0, finished
    planned = json.loads(file.read_text())["partitions"]
    assert len(planned) == 2
    assert all(len({HOSTS[replica] for replica in one["replicas"]}) == 2 for one in planned)


def test_host_that_dies_with_most_brokers_fails_over_as_fast_as_one_broker(
    cluster: RealCluster, measured: Callable[[str], None]
) -> None:
    with cluster.client(WITNESS) as client:
        Admin(client).create_topic("led", partitions=24, replication_factor=3)
        one_broker_s = kill_and_wait_for_leaders(cluster, client, LARGE_HOST[:1])
        cluster.wait_until_whole()
        wait_for("preferred leaders", lambda: elect_preferred(client) == set(HOSTS))
        host_s = kill_and_wait_for_leaders(cluster, client, LARGE_HOST)
        measured(
            f"every partition has a leader {one_broker_s * 1000:.0f} ms after kill -9 of one broker, "
            f"{host_s * 1000:.0f} ms after kill -9 of a host with four of six brokers"
        )
        assert host_s < EARLY_S_MAX
    cluster.wait_until_whole()


def kill_and_wait_for_leaders(cluster: RealCluster, client: Cluster, numbers: Sequence[int]) -> float:
    """Kill these brokers at once, return the seconds until others lead all partitions, and start them again."""
    victims = [cluster.nodes[number] for number in numbers]
    dead = set(numbers)
    assert dead <= leaders(client)
    with ThreadPoolExecutor(len(victims)) as threads:
        killed_at = time.monotonic()
        list(threads.map(lambda victim: victim.kill(), victims))
    wait_for("leaders on other brokers", lambda: not leaders(client) & (dead | {NO_LEADER}))
    seconds = time.monotonic() - killed_at
    assert cluster.fenced(WITNESS) == dead
    for victim in victims:
        victim.spawn()
    return seconds


def elect_preferred(client: Cluster) -> set[int]:
    """A broker that was killed leads nothing until its replicas are in sync and an election was requested."""
    Reassignments(client).elect_preferred(None)
    return leaders(client)


def leaders(client: Cluster) -> set[int]:
    return {partition.leader for topic in client.topics(["led"]).values() for partition in topic.partitions}
