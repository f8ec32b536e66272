"""One cluster, nodes of both: brokers of Odradek's and Apache Kafka's under a controller of either.

Whatever nodes ask of each other to be members (registration, heartbeats, the metadata log, requests in envelopes, the
controlled way out), the other product answers.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.admin import Admin
from odradek.client.layout import TopicLayout
from tests.cluster.real_cluster import KafkaMember, Member, OdradekMember, RealCluster, real_cluster, roles_of, wait_for

pytestmark = pytest.mark.kafka

CONTROLLER, OURS, THEIRS = 1, 2, 3
LAYOUT = roles_of(controllers=(CONTROLLER,), brokers=(OURS, THEIRS))


@pytest.fixture(
    scope="module",
    params=["controller of Odradek's", pytest.param("controller of Kafka's", marks=pytest.mark.tier("proof"))],
)
def cluster(
    request: pytest.FixtureRequest, apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    theirs = {f"node-{THEIRS}"} | ({f"node-{CONTROLLER}"} if "Kafka" in request.param else set())

    def new_member(directory: Path) -> Member:
        return KafkaMember(apache_kafka_libs, directory) if directory.name in theirs else OdradekMember(directory)

    with real_cluster(tmp_path_factory.mktemp("mixed"), LAYOUT, new_member=new_member) as cluster:
        yield cluster


def topic_seen_by(cluster: RealCluster, node_id: int, name: str) -> TopicLayout | None:
    with cluster.client(node_id) as client:
        return client.layout([name]).topics.get(name)


@pytest.mark.parametrize("asked", [OURS, THEIRS])
def test_a_topic_asked_of_one_broker_is_served_by_both(cluster: RealCluster, asked: int) -> None:
    name = f"asked-of-{asked}"
    with cluster.client(asked) as client:
        Admin(client).create_topic(name, partitions=2, replication_factor=1)

    def is_served(node_id: int) -> bool:
        topic = topic_seen_by(cluster, node_id, name)
        return topic is not None and {partition.leader for partition in topic.partitions} == {OURS, THEIRS}

    for node_id in (OURS, THEIRS):
        wait_for(f"{name} at broker {node_id}", lambda node_id=node_id: is_served(node_id))  # type: ignore[misc]


@pytest.mark.parametrize(("leaving", "staying"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_a_broker_leaves_and_comes_back(cluster: RealCluster, leaving: int, staying: int) -> None:
    cluster.nodes[leaving].stop()
    # Before the session of somebody who only fell silent could have ended.
    wait_for(f"broker {leaving} to be gone", lambda: cluster.unfenced(staying) == {staying}, seconds_max=8)
    cluster.nodes[leaving].start()
    cluster.wait_until_whole()


@pytest.mark.parametrize("asked", [OURS, THEIRS])
def test_the_quorum_counts_both_brokers_among_its_observers(cluster: RealCluster, asked: int) -> None:
    status = cluster.quorum_status(asked)
    assert status.leader_id == CONTROLLER
    assert {observer.id for observer in status.observers} >= {OURS, THEIRS}
