"""Consumers fetch from the replica in their own rack (KIP-392): the brokers' responses, and where clients then fetch.

With --reference the same tests run against Apache Kafka.
"""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.errors import ErrorCode
from tests.cluster.real_cluster import COMBINED, KafkaMember, Member, OdradekMember, RealCluster, real_cluster, wait_for
from tests.kafka.apache_kafka import REFERENCE
from tests.kafka.java_program import JavaProgram
from tests.raw_wire import RawConnection

FETCH, LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH = 1, 2, 3, 23
NEWEST, LAST_WITHOUT_FOLLOWERS, LAST_WITH_NAMES = 17, 10, 12
TOPIC, RECORDS = "near", 100
NO_REPLICA = -1
RACKS = {1: "east", 2: "west", 3: "west"}


@pytest.fixture(
    scope="module",
    params=["Odradek", pytest.param("Apache Kafka", marks=REFERENCE)],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    def new_member(directory: Path) -> Member:
        if request.param == "Odradek":
            return OdradekMember(directory)
        return KafkaMember(request.getfixturevalue("apache_kafka_libs"), directory)

    with real_cluster(
        tmp_path_factory.mktemp("racks"),
        dict.fromkeys(RACKS, COMBINED),
        properties={
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            # Followers of Apache Kafka wait this long before they receive the new high watermark; Odradek's must not.
            "replica.fetch.wait.max.ms": "8000" if request.param == "Odradek" else "500",
        },
        properties_of={node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()},
        new_member=new_member,
    ) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]])])[TOPIC].result(20)
        write(started, RECORDS)
        wait_for("the high watermark on the follower", lambda: fetch(started, 2, offset=0).high_watermark == RECORDS)
        yield started


def write(cluster: RealCluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(TOPIC, f"record {number}".encode(), partition=0)
    assert producer.flush(20) == 0


def topic_id(connection: RawConnection) -> UUID:
    (topic,) = connection.request(METADATA, 12, {"topics": [{"name": TOPIC}]}).topics
    assert isinstance(topic.topic_id, UUID)
    return topic.topic_id


def fetch_fields(
    topic: Mapping[str, object], *, offset: int, rack: str, leader_epoch: int = -1, wait_ms: int = 0
) -> dict[str, Any]:
    wanted = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": leader_epoch,
        "last_fetched_epoch": -1,
    }
    return {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "rack_id": rack,
        "topics": [{**topic, "partitions": [wanted]}],
    }


def fetch(
    cluster: RealCluster,
    node_id: int,
    *,
    offset: int,
    rack: str = "",
    version: int = NEWEST,
    leader_epoch: int = -1,
) -> Any:
    with RawConnection(cluster.nodes[node_id].port) as connection:
        name: dict[str, Any] = {"topic": TOPIC} if version <= LAST_WITH_NAMES else {"topic_id": topic_id(connection)}
        fields = fetch_fields(name, offset=offset, rack=rack, leader_epoch=leader_epoch)
        (topic,) = connection.request(FETCH, version, fields).responses
        return topic.partitions[0]


def end_offset(cluster: RealCluster) -> int:
    high_watermark = fetch(cluster, 1, offset=0).high_watermark
    assert isinstance(high_watermark, int)
    return high_watermark


def test_leader_redirects_a_consumer_to_the_replica_in_its_rack(cluster: RealCluster) -> None:
    response = fetch(cluster, 1, offset=0, rack="west")
    assert response.error_code is ErrorCode.none
    assert response.preferred_read_replica == 2
    assert not response.records
    assert response.high_watermark == response.last_stable_offset == end_offset(cluster)
    assert response.log_start_offset == 0


@pytest.mark.parametrize("rack", ["", "east", "south"])
def test_leader_serves_consumers_without_a_replica_in_their_rack(cluster: RealCluster, rack: str) -> None:
    response = fetch(cluster, 1, offset=0, rack=rack)
    assert response.preferred_read_replica == NO_REPLICA
    assert response.records


def test_old_fetch_versions_are_served_only_by_the_leader(cluster: RealCluster) -> None:
    assert fetch(cluster, 1, offset=0, version=LAST_WITHOUT_FOLLOWERS).records
    refused = fetch(cluster, 2, offset=0, version=LAST_WITHOUT_FOLLOWERS)
    assert refused.error_code is ErrorCode.not_leader_or_follower


def test_leader_rejects_offsets_beyond_the_end_without_redirecting(cluster: RealCluster) -> None:
    response = fetch(cluster, 1, offset=end_offset(cluster) + 1000, rack="west")
    assert response.error_code is ErrorCode.offset_out_of_range
    assert response.preferred_read_replica == NO_REPLICA


@pytest.mark.parametrize("rack", ["west", "east", ""])
def test_follower_returns_the_committed_records(cluster: RealCluster, rack: str) -> None:
    at_leader, at_follower = fetch(cluster, 1, offset=0), fetch(cluster, 2, offset=0, rack=rack)
    assert at_follower.error_code is ErrorCode.none
    assert at_follower.preferred_read_replica == NO_REPLICA
    assert bytes(at_follower.records) == bytes(at_leader.records)


def test_follower_rejects_invalid_offsets_epochs_and_unassigned_brokers(cluster: RealCluster) -> None:
    beyond = fetch(cluster, 2, offset=end_offset(cluster) + 1)
    assert beyond.error_code is ErrorCode.offset_out_of_range
    assert fetch(cluster, 2, offset=0, leader_epoch=0).error_code is ErrorCode.none
    assert fetch(cluster, 2, offset=0, leader_epoch=5).error_code is ErrorCode.unknown_leader_epoch
    assert fetch(cluster, 3, offset=0).error_code is ErrorCode.not_leader_or_follower


def test_list_offsets_and_leader_epochs_are_served_only_by_the_leader(cluster: RealCluster) -> None:
    latest = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    fields = {"topics": [{"name": TOPIC, "partitions": [latest]}]}
    epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    with RawConnection(cluster.nodes[2].port) as follower:
        consumer = follower.request(LIST_OFFSETS, 7, {"replica_id": -1, **fields}).topics[0].partitions[0]
        assert consumer.error_code is ErrorCode.not_leader_or_follower
        debugger = follower.request(LIST_OFFSETS, 7, {"replica_id": -2, **fields}).topics[0].partitions[0]
        assert debugger.error_code is ErrorCode.none
        of_epoch = follower.request(
            OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [epoch]}]}
        )
        assert of_epoch.topics[0].partitions[0].error_code is ErrorCode.not_leader_or_follower


def test_pending_fetch_at_a_follower_completes_when_records_are_committed(cluster: RealCluster) -> None:
    end = end_offset(cluster)
    wait_for("the follower to catch up", lambda: fetch(cluster, 2, offset=0).high_watermark == end)
    with RawConnection(cluster.nodes[2].port) as connection:
        fields = fetch_fields({"topic": TOPIC}, offset=end, rack="west", wait_ms=20_000)
        connection.send(FETCH, LAST_WITH_NAMES, fields)
        write(cluster, 1)
        began = time.monotonic()
        connection.receive()
        assert time.monotonic() - began < 7


def test_confluent_kafka_fetches_from_the_replica_in_its_rack(cluster: RealCluster) -> None:
    read_from: set[int] = set()

    def look(statistics: str) -> None:
        partitions = json.loads(statistics)["topics"].get(TOPIC, {}).get("partitions", {})
        read_from.add(partitions.get("0", {}).get("broker", NO_REPLICA))

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "near",
            "client.rack": "west",
            "enable.auto.commit": False,
            "statistics.interval.ms": 50,
            "stats_cb": look,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        offsets: list[int | None] = []

        def is_read_there() -> bool:
            offsets.extend(one.offset() for one in consumer.consume(RECORDS, 0.2))
            return len(offsets) >= RECORDS and 2 in read_from

        wait_for("all records, read from broker 2", is_read_there)
        assert offsets[:RECORDS] == list(range(RECORDS))
    finally:
        consumer.close()


@pytest.mark.kafka
def test_java_consumer_fetches_from_the_replica_in_its_rack(cluster: RealCluster, apache_kafka_libs: Path) -> None:
    with JavaProgram(apache_kafka_libs, "ReadNearest") as program:
        for rack, replica in (("west", 2), ("east", NO_REPLICA)):
            (response,) = program.request(cluster.bootstrap, rack, TOPIC, RECORDS)
            records, read_from = map(int, response.split())
            assert records >= RECORDS
            assert read_from == replica
