"""Three brokers with a replica each: acknowledged records survive a leader's death, and replicas become equal."""

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.client.layout import PartitionLayout
from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for

NO_WAIT = {"acks": 1, "enable.idempotence": False}
QUICK = {
    # A stopped follower leaves the ISR soon, and sessions expire within the test.
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(
        tmp_path_factory.mktemp("replicas"), dict.fromkeys((1, 2, 3), COMBINED), properties=QUICK
    ) as started:
        yield started


def create_topic(cluster: RealCluster, topic: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, 1, 3, config={key.replace("_", "."): value for key, value in configs.items()})
    admin.create_topics([new])[topic].result(20)


def state(cluster: RealCluster, topic: str, *node_ids: int) -> tuple[int, set[int]]:
    """Leader and ISR according to one of these nodes, or any running broker, once it has the topic's metadata."""
    found: list[PartitionLayout] = []

    def is_known() -> bool:
        with cluster.client(*node_ids) as client:
            known = client.layout([topic]).topics
        found[:] = known[topic].partitions if topic in known else ()
        return bool(found)

    wait_for(f"metadata of {topic}", is_known)
    return found[0].leader, set(found[0].isr)


class Writer:
    """An idempotent producer that records the offsets of acknowledged records."""

    def __init__(
        self,
        cluster: RealCluster,
        topic: str,
        name: str = "record",
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._topic, self._name = topic, name
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 1000,
                **settings,
            }
        )
        self.sent = 0
        self.acknowledged: dict[bytes, int] = {}
        self.errors: list[KafkaError] = []

    def write(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(
                self._topic, f"{self._name} {self.sent}".encode(), partition=0, on_delivery=self._delivered
            )
            self.sent += 1
            self._producer.poll(0)

    def write_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.write(10)
            self._producer.poll(0.005)

    def flush(self, timeout_s: float = 60.0) -> None:
        assert self._producer.flush(timeout_s) == 0, "not every record was acknowledged or failed"

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.value()] = message.offset()  # type: ignore[attr-defined]


def read_all(cluster: RealCluster, topic: str) -> dict[bytes, int]:
    """Offsets of all readable records by value. Fails if a record appears twice."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: dict[bytes, int] = {}
        deadline = time.monotonic() + 60
        position = 0
        while position < end and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None
                value, offset = message.value(), message.offset()
                assert value is not None
                assert offset is not None
                assert value not in found, "a record appears twice"
                found[value] = offset
                position = offset + 1
        assert position >= end, f"read to {position} of {end}"
        return found
    finally:
        consumer.close()


def wait_until_in_sync(cluster: RealCluster, topic: str, replicas: set[int], *node_ids: int) -> None:
    wait_for(f"{sorted(replicas)} in sync", lambda: state(cluster, topic, *node_ids)[1] == replicas)


def wait_for_equal_replicas(cluster: RealCluster, topic: str) -> None:
    wait_for("equal replicas", lambda: len({node.log_bytes(topic, 0) for node in cluster.brokers}) == 1)


def test_acknowledged_records_survive_the_death_of_the_leader(cluster: RealCluster) -> None:
    topic = "survives"
    create_topic(cluster, topic, min_insync_replicas="2")
    writer = Writer(cluster, topic)
    writer.write_for(1.0)
    leader, _ = state(cluster, topic)
    cluster.nodes[leader].kill()
    writer.write_for(2.0)
    cluster.nodes[leader].start()
    writer.write_for(1.0)
    writer.flush()
    assert not writer.errors
    assert len(writer.acknowledged) == writer.sent
    found = read_all(cluster, topic)
    lost = {value: offset for value, offset in writer.acknowledged.items() if found.get(value) != offset}
    assert not lost
    assert len(found) == writer.sent
    wait_until_in_sync(cluster, topic, {1, 2, 3})
    wait_for_equal_replicas(cluster, topic)


def test_records_only_on_a_dead_leader_are_truncated_when_it_restarts(cluster: RealCluster) -> None:
    topic = "diverges"
    create_topic(cluster, topic)
    first = Writer(cluster, topic, "first")
    first.write(100)
    first.flush()
    leader, _ = state(cluster, topic)
    others = [node for node in cluster.brokers if node.node_id != leader]
    for node in others:
        node.freeze()
    unreplicated = Writer(cluster, topic, "unreplicated", NO_WAIT)
    unreplicated.write(50)
    unreplicated.flush()
    cluster.nodes[leader].kill()
    for node in others:
        node.wake()
    wait_for("another leader", lambda: state(cluster, topic)[0] not in (-1, leader))
    second = Writer(cluster, topic, "second")
    second.write(100)
    second.flush()
    cluster.nodes[leader].start()
    wait_until_in_sync(cluster, topic, {1, 2, 3})
    found = read_all(cluster, topic)
    for writer in (first, second):
        assert all(found.get(value) == offset for value, offset in writer.acknowledged.items())
    wait_for_equal_replicas(cluster, topic)


def test_acks_all_is_rejected_below_min_insync_replicas(cluster: RealCluster) -> None:
    topic = "strict"
    create_topic(cluster, topic, min_insync_replicas="3")
    leader, _ = state(cluster, topic)
    victim = next(node for node in cluster.brokers if node.node_id != leader)
    victim.kill()
    # The leader rejects the write, and other brokers may see the new ISR earlier than the leader.
    wait_until_in_sync(cluster, topic, {1, 2, 3} - {victim.node_id}, leader)
    strict = Writer(cluster, topic, "strict", {"message.timeout.ms": 30000, "retries": 0, "enable.idempotence": False})
    strict.write(1)
    strict.flush()
    assert [error.code() for error in strict.errors] == [KafkaError.NOT_ENOUGH_REPLICAS]
    easy = Writer(cluster, topic, "easy", NO_WAIT)
    easy.write(10)
    easy.flush()
    assert not easy.errors
    victim.start()
    wait_until_in_sync(cluster, topic, {1, 2, 3})
    again = Writer(cluster, topic, "again")
    again.write(10)
    again.flush()
    assert not again.errors
    assert len(read_all(cluster, topic)) == 20


def test_replication_factor_above_broker_count_is_rejected(cluster: RealCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topics([NewTopic("wide", 1, 4)])["wide"].result(20)
