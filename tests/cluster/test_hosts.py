"""Brokers on three hosts, which are loopback addresses: replicas are spread over hosts, and a host fails as one."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.client.admin import Admin
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


def test_host_that_dies_with_most_brokers_is_fenced_at_once(
    cluster: RealCluster, measured: Callable[[str], None]
) -> None:
    victims = [cluster.nodes[number] for number in LARGE_HOST]
    for victim in victims:
        victim.kill()
    seconds = wait_for("all fences", lambda: cluster.fenced(WITNESS) == set(LARGE_HOST))
    measured(f"a host with four of six brokers is fenced {seconds * 1000:.0f} ms after kill -9")
    assert seconds < EARLY_S_MAX
    with cluster.client(WITNESS) as client:
        leaders = {partition.leader for partition in client.topics(["orders"])["orders"].partitions}
    assert leaders == {6, 7}
    for victim in victims:
        victim.spawn()
    cluster.wait_until_whole()
