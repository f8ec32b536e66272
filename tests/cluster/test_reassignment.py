"""Partition reassignments under writes, and preferred leader elections."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.errors import ErrorCode
from tests.apis import Api, latest
from tests.cluster.real_cluster import BROKER, COMBINED, RealCluster, real_cluster, wait_for
from tests.raw_wire import RawConnection

TOPIC = "orders"
PREFERRED = 0


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    roles: dict[int, Sequence[str]] = {1: COMBINED, 2: COMBINED, 3: COMBINED, 4: (BROKER,)}
    with real_cluster(tmp_path_factory.mktemp("reassignments"), roles) as started:
        yield started


@pytest.fixture
def cluster(four_nodes: RealCluster) -> Iterator[RealCluster]:
    """The cluster with all nodes running and a fresh topic."""
    topic = NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]], config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": four_nodes.bootstrap})
    admin.create_topics([topic])[TOPIC].result(20)
    yield four_nodes
    four_nodes.start_the_dead()
    admin.delete_topics([TOPIC])[TOPIC].result(20)


def request(cluster: RealCluster, api: Api, fields: Mapping[str, Any]) -> Any:
    """Send the request to a broker that is not a controller, so that it must forward it."""
    connection = RawConnection(cluster.nodes[4].port)
    try:
        return connection.request(api, latest(api), {"timeout": 10_000, **fields})
    finally:
        connection.close()


def reassign(cluster: RealCluster, replicas: Sequence[int] | None) -> ErrorCode:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": replicas}]}]
    fields = {"allow_replication_factor_change": True, "topics": topics}
    code: ErrorCode = request(cluster, Api.ALTER_PARTITION_REASSIGNMENTS, fields).responses[0].partitions[0].error_code
    return code


def reassignments(cluster: RealCluster) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    topics = request(cluster, Api.LIST_PARTITION_REASSIGNMENTS, {"topics": None}).topics
    return [(one.replicas, one.adding_replicas, one.removing_replicas) for topic in topics for one in topic.partitions]


def elect(cluster: RealCluster) -> ErrorCode:
    fields = {"election_type": PREFERRED, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}]}
    code: ErrorCode = (
        request(cluster, Api.ELECT_LEADERS, fields).replica_election_results[0].partition_result[0].error_code
    )
    return code


def state(cluster: RealCluster) -> tuple[int, list[int], set[int]]:
    """Leader, replicas and in-sync replicas."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partition = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0]
    return partition.leader, partition.replicas, set(partition.isrs)


def wait_until_held_by(cluster: RealCluster, *replicas: int) -> None:
    def is_there() -> bool:
        _, held_by, isr = state(cluster)
        return held_by == list(replicas) and isr == set(replicas)

    wait_for(f"replicas on {replicas}, in sync", is_there)


class Writer:
    """An idempotent producer that records the offsets of acknowledged records."""

    def __init__(self, cluster: RealCluster) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
        self._sent = 0
        self.acknowledged: dict[bytes, int] = {}
        self.errors: list[KafkaError] = []

    def write(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(TOPIC, str(self._sent).encode(), partition=0, on_delivery=self._delivered)
            self._sent += 1
        assert self._producer.flush(30) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[message.value() or b""] = message.offset() or 0
        else:
            self.errors.append(error)


def read_all(cluster: RealCluster, count: int) -> dict[bytes, int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[bytes, int] = {}

    def is_read() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            found[message.value() or b""] = message.offset() or 0
        return len(found) >= count

    try:
        wait_for(f"{count} records", is_read)
    finally:
        consumer.close()
    return found


def test_reassignment_under_writes_loses_no_acknowledged_record(cluster: RealCluster) -> None:
    writer = Writer(cluster)
    writer.write(2000)
    assert reassign(cluster, [4, 3]) is ErrorCode.none
    writer.write(2000)
    wait_until_held_by(cluster, 4, 3)
    assert reassignments(cluster) == []
    writer.write(2000)
    assert writer.errors == []
    assert read_all(cluster, 6000) == writer.acknowledged
    wait_for("the old replicas to be deleted", lambda: not copies(cluster, 1) and not copies(cluster, 2))
    assert copies(cluster, 4)


def copies(cluster: RealCluster, node_id: int) -> list[Path]:
    return [path for log_dir in cluster.nodes[node_id].log_dirs for path in log_dir.glob(f"{TOPIC}-0")]


def test_reassignment_to_a_dead_broker_waits_for_it_or_is_cancelled(cluster: RealCluster) -> None:
    cluster.nodes[3].kill()
    wait_for("node 3 to be fenced", lambda: cluster.fenced() == {3})
    assert reassign(cluster, [1, 2, 4]) is ErrorCode.none
    wait_until_held_by(cluster, 1, 2, 4)
    assert reassign(cluster, [1, 2, 3]) is ErrorCode.none
    assert reassignments(cluster) == [((1, 2, 3, 4), (3,), (4,))]
    assert reassign(cluster, None) is ErrorCode.none
    assert reassignments(cluster) == []
    wait_until_held_by(cluster, 1, 2, 4)
    assert reassign(cluster, None) is ErrorCode.no_reassignment_in_progress
    assert reassign(cluster, [1, 2, 3]) is ErrorCode.none
    cluster.nodes[3].start()
    wait_until_held_by(cluster, 1, 2, 3)


def test_preferred_leader_election_elects_the_first_replica(cluster: RealCluster) -> None:
    writer = Writer(cluster)
    writer.write(100)
    assert elect(cluster) is ErrorCode.election_not_needed
    assert reassign(cluster, [2, 1, 3]) is ErrorCode.none
    assert state(cluster)[0] == 1
    assert elect(cluster) is ErrorCode.none
    wait_for("2 to lead", lambda: state(cluster)[0] == 2)
    writer.write(100)
    assert writer.errors == []
    assert read_all(cluster, 200) == writer.acknowledged
