"""One cluster with brokers of Odradek and Apache Kafka, under a controller of either product.

Each product serves the requests of the other's nodes: registration, heartbeats, the metadata log, forwarded requests
and controlled shutdown.
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


@pytest.mark.parametrize("node_id", [OURS, THEIRS])
def test_topic_created_through_one_broker_is_served_by_both(cluster: RealCluster, node_id: int) -> None:
    name = f"created-at-{node_id}"
    with cluster.client(node_id) as client:
        Admin(client).create_topic(name, partitions=2, replication_factor=1)

    def is_served_by(broker_id: int) -> bool:
        topic = topic_seen_by(cluster, broker_id, name)
        return topic is not None and {partition.leader for partition in topic.partitions} == {OURS, THEIRS}

    for one in (OURS, THEIRS):
        wait_for(f"{name} at broker {one}", lambda one=one: is_served_by(one))  # type: ignore[misc]


@pytest.mark.parametrize(("leaving", "staying"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_broker_shuts_down_cleanly_and_returns(cluster: RealCluster, leaving: int, staying: int) -> None:
    cluster.nodes[leaving].stop()
    # Earlier than the session of an unresponsive broker could expire.
    wait_for(f"broker {leaving} to be fenced", lambda: cluster.unfenced(staying) == {staying}, seconds_max=8)
    cluster.nodes[leaving].start()
    cluster.wait_until_whole()


@pytest.mark.parametrize("node_id", [OURS, THEIRS])
def test_quorum_lists_both_brokers_as_observers(cluster: RealCluster, node_id: int) -> None:
    status = cluster.quorum_status(node_id)
    assert status.leader_id == CONTROLLER
    assert {observer.id for observer in status.observers} >= {OURS, THEIRS}
