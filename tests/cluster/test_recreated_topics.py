"""A topic is deleted and recreated while a replica is offline: records of the old topic never reappear."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.real_cluster import COMBINED, Member, RealCluster, real_cluster, wait_for

ALL = {1, 2, 3}
AWAY = 3
QUICK = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300", "replica.lag.time.max.ms": "2000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("recreated"), dict.fromkeys(ALL, COMBINED), properties=QUICK) as started:
        yield started


def bootstrap(cluster: RealCluster) -> str:
    return ",".join(node.bootstrap for node in cluster.brokers if node.node_id != AWAY)


def admin(cluster: RealCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap(cluster), "log_level": 0})


def create(cluster: RealCluster, topic: str, replicas: list[int], configs: dict[str, str] | None = None) -> None:
    new = NewTopic(topic, 1, replica_assignment=[replicas], config=configs or {})
    client = admin(cluster)
    client.create_topics([new])[topic].result(20)


def delete(cluster: RealCluster, topic: str) -> None:
    client = admin(cluster)
    client.delete_topics([topic])[topic].result(20)


def write(cluster: RealCluster, topic: str, name: str, count: int) -> None:
    settings = {"bootstrap.servers": bootstrap(cluster), "acks": "all", "enable.idempotence": True, "log_level": 0}
    producer = Producer(settings)
    for number in range(count):
        producer.produce(topic, f"{name} {number}".encode(), partition=0)
    assert producer.flush(20) == 0


def in_sync(cluster: RealCluster, topic: str) -> set[int]:
    """The ISR; empty if the broker does not have the topic in its metadata yet."""
    partitions = admin(cluster).list_topics(topic, timeout=10).topics[topic].partitions
    return set(partitions[0].isrs) if partitions else set()


def kinds(node: Member, topic: str) -> set[str]:
    """The topic's directories on disk by suffix: the replica itself, stray directories, and directories to delete."""
    (log_dir,) = node.log_dirs
    return {path.name.rpartition("-")[2] for path in log_dir.glob(f"{topic}-0*")}


def kill(node: Member) -> Callable[[], object]:
    node.kill()
    return node.start


def stop(node: Member) -> Callable[[], object]:
    node.stop()
    return node.start


def freeze(node: Member) -> Callable[[], object]:
    node.freeze()
    return node.wake


@pytest.mark.parametrize(
    "leave",
    [kill, pytest.param(stop, marks=pytest.mark.tier("proof")), pytest.param(freeze, marks=pytest.mark.tier("proof"))],
)
def test_recreated_topic_has_no_old_records_on_a_returning_replica(
    cluster: RealCluster, leave: Callable[[Member], Callable[[], object]]
) -> None:
    topic = f"again-{leave.__name__}"
    away, others = cluster.nodes[AWAY], [cluster.nodes[1], cluster.nodes[2]]
    create(cluster, topic, [1, 2, AWAY])
    write(cluster, topic, "former", 100)
    wait_for("equal replicas", lambda: len({node.log_bytes(topic, 0) for node in cluster.brokers}) == 1)
    come_back = leave(away)
    wait_for("the broker to be fenced", lambda: AWAY in cluster.fenced(1, 2))
    delete(cluster, topic)
    create(cluster, topic, [1, 2, AWAY])
    # A broker that has not applied the new topic yet would append the records to the old one.
    wait_for("the old records to be deleted", lambda: all(b"former" not in node.log_bytes(topic, 0) for node in others))
    write(cluster, topic, "present", 10)
    come_back()
    wait_for("all in sync", lambda: in_sync(cluster, topic) == ALL)
    write(cluster, topic, "later", 10)
    wait_for("equal replicas", lambda: len({node.log_bytes(topic, 0) for node in cluster.brokers}) == 1)
    content = away.log_bytes(topic, 0)
    assert b"former" not in content
    assert content.count(b"present") == content.count(b"later") == 10
    # A broker that was down during the deletion renames the directory to -stray, as Kafka does, instead of deleting it.
    expected = {"0", "delete"} if leave is freeze else {"0", "stray"}
    assert kinds(away, topic) <= expected
    if leave is not freeze:
        assert "stray" in kinds(away, topic)


def test_replica_of_a_topic_recreated_on_other_brokers_becomes_stray(cluster: RealCluster) -> None:
    topic = "elsewhere"
    away = cluster.nodes[AWAY]
    create(cluster, topic, [AWAY, 1])
    write(cluster, topic, "former", 10)
    away.kill()
    wait_for("the broker to be fenced", lambda: AWAY in cluster.fenced(1, 2))
    delete(cluster, topic)
    create(cluster, topic, [1, 2])
    write(cluster, topic, "present", 10)
    away.start()
    cluster.wait_until_whole()
    assert kinds(away, topic) == {"stray"}
    wait_for("both in sync", lambda: in_sync(cluster, topic) == {1, 2})


def test_replica_of_a_deleted_topic_becomes_stray(cluster: RealCluster) -> None:
    topic = "gone"
    away = cluster.nodes[AWAY]
    create(cluster, topic, [AWAY, 1])
    write(cluster, topic, "former", 10)
    away.kill()
    wait_for("the broker to be fenced", lambda: AWAY in cluster.fenced(1, 2))
    delete(cluster, topic)
    away.start()
    cluster.wait_until_whole()
    assert kinds(away, topic) == {"stray"}
    away.stop()
    away.start()
    assert kinds(away, topic) == {"stray"}, "a stray directory stays stray"
