"""Thousands of topics with one leader: followers replicate them all, and admin tools list and describe them."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.errors import ClientError
from tests.apis import Api
from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for
from tests.kafka.apache_kafka import KafkaTools
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import LATEST

FEW = 1_200
"""More than one Fetch adds to a session."""
MANY = 20_000
"""More than a request could name when its elements were limited."""
TOPICS_PER_REQUEST = 500
LEADER = 1
REPLICAS = (LEADER, 2, 3)
SAMPLES = 20
# A busy computer may stop a process for seconds.
PATIENT = {"broker.session.timeout.ms": "30000", "replica.lag.time.max.ms": "60000"}
SECONDS_PER_TOPIC_MAX = 0.1
SECONDS_MIN = 60.0
WHOLE_S = 300.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    with real_cluster(tmp_path, dict.fromkeys(REPLICAS, COMBINED), properties=PATIENT) as started:
        yield started


def create_topics(cluster: RealCluster, count: int) -> list[str]:
    """Each has one partition, and the same leader."""
    names = [f"topic-{number}" for number in range(count)]
    assignment = [{"partition_index": 0, "broker_ids": REPLICAS}]
    new = {"num_partitions": -1, "replication_factor": -1, "assignments": assignment}
    with RawConnection(cluster.nodes[LEADER].port, timeout_s=120) as connection:
        for start in range(0, count, TOPICS_PER_REQUEST):
            some = [{"name": name, **new} for name in names[start : start + TOPICS_PER_REQUEST]]
            response = connection.request(Api.CREATE_TOPICS, 7, {"topics": some, "timeout": 120_000})
            assert {topic.error_code for topic in response.topics} == {ErrorCode.none}
    return names


def wait_for_isr(cluster: RealCluster, count: int, isr: set[int]) -> float:
    def is_in_sync() -> bool:
        try:
            with cluster.client(LEADER, timeout_s=60) as client:
                topics = client.layout(None).topics
        except (ClientError, KafkaError):
            return False
        return len(topics) == count and all(
            partition.leader == LEADER and set(partition.isr) == isr
            for topic in topics.values()
            for partition in topic.partitions
        )

    return wait_for(f"ISR {isr} of {count} topics", is_in_sync, max(SECONDS_MIN, count * SECONDS_PER_TOPIC_MAX))


def produce_to(cluster: RealCluster, topics: Sequence[str]) -> None:
    """Waits for all replicas."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for topic in topics:
        producer.produce(
            topic, b"value", partition=0, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(120) == 0
    assert failures == []


def describe_all(connection: RawConnection) -> Iterator[Any]:
    """Page by page."""
    cursor = None
    while True:
        response = connection.request(
            Api.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [], "response_partition_limit": 2000, "cursor": cursor}
        )
        yield from response.topics
        if response.next_cursor is None:
            return
        cursor = {
            "topic_name": response.next_cursor.topic_name,
            "partition_index": response.next_cursor.partition_index,
        }


def check_descriptions(cluster: RealCluster, names: Sequence[str]) -> None:
    listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=60).topics
    assert set(names) <= set(listed)
    with RawConnection(cluster.nodes[LEADER].port, timeout_s=120) as connection:
        described = [(topic.name, topic.partitions[0].isr_nodes) for topic in describe_all(connection)]
        assert [name for name, _ in described] == sorted(names)
        assert all(set(isr) == set(REPLICAS) for _, isr in described)
        partition = {"partition_index": 0, "timestamp": LATEST}
        every = [{"name": name, "partitions": [partition]} for name in names]
        offsets = connection.request(Api.LIST_OFFSETS, 7, {"replica_id": -1, "topics": every})
        assert {topic.partitions[0].error_code for topic in offsets.topics} == {ErrorCode.none}
        assert len(offsets.topics) == len(names)


def check_replication(cluster: RealCluster, count: int) -> list[str]:
    """Also after a follower has lost its session with the leader."""
    began = time.monotonic()
    names = create_topics(cluster, count)
    created_s = time.monotonic() - began
    replicated_s = wait_for_isr(cluster, count, set(REPLICAS))
    returning = cluster.nodes[3]
    returning.kill()
    returning.start()
    cluster.wait_until_whole(WHOLE_S)
    rejoined_s = wait_for_isr(cluster, count, set(REPLICAS))
    print(
        f"{count:,} topics: created in {created_s:.0f} s, replicated {replicated_s:.0f} s later; a follower that has "
        f"restarted is in every ISR after {rejoined_s:.0f} s"
    )
    samples = names[:: count // SAMPLES] + names[-1:]
    produce_to(cluster, samples)
    for name in samples:
        expected = cluster.nodes[LEADER].log_bytes(name, 0)
        assert expected
        wait_for(f"replicas of {name}", _has_logs(cluster, name, expected))
    return names


def _has_logs(cluster: RealCluster, name: str, expected: bytes) -> Callable[[], bool]:
    return lambda: all(node.log_bytes(name, 0) == expected for node in cluster.brokers)


def test_topics_are_replicated_though_one_fetch_does_not_name_them_all(cluster: RealCluster) -> None:
    check_descriptions(cluster, check_replication(cluster, FEW))


@pytest.mark.tier("proof")
@pytest.mark.timeout(3600)
def test_twenty_thousand_topics_of_one_leader_are_replicated(cluster: RealCluster, apache_kafka_libs: Path) -> None:
    names = check_replication(cluster, MANY)
    check_descriptions(cluster, names)
    tools = KafkaTools(apache_kafka_libs, cluster.bootstrap)
    assert len(tools.topics("--list").splitlines()) == MANY
    described = tools.topics("--describe").splitlines()
    assert len([line for line in described if "Leader: 1" in line]) == MANY
