"""A log dir of one broker fails: other brokers lead its partitions, the other log dir keeps working, and a repaired or
empty disk catches up.

The test renames the directory under the running node, so that every attempt to open a file there fails.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.errors import ErrorCode
from tests.cluster.real_cluster import COMBINED, OdradekMember, RealCluster, real_cluster, wait_for
from tests.raw_wire import RawConnection

TOPIC, PARTITIONS = "spread", 6
# Partitions with a single replica on the broker whose log dir fails, so that each of its log dirs is written to.
TRIGGER, TRIGGER_PARTITIONS = "trigger", 6
ALL = {1, 2, 3}
PRODUCE = 0


def new_member(directory: Path) -> OdradekMember:
    return OdradekMember(directory, log_dirs=[directory / "metadata", directory / "first", directory / "second"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    # The broker notices the missing log dir when it writes a checkpoint.
    quick = {"replica.high.watermark.checkpoint.interval.ms": "100", "replica.lag.time.max.ms": "3000"}
    with real_cluster(tmp_path, dict.fromkeys(ALL, COMBINED), properties=quick, new_member=new_member) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        config = {"min.insync.replicas": "2"}
        assignment = [[1 + (number + step) % 3 for step in range(3)] for number in range(PARTITIONS)]
        topics = [
            NewTopic(TOPIC, PARTITIONS, replica_assignment=assignment, config=config),
            NewTopic(TRIGGER, TRIGGER_PARTITIONS, replica_assignment=[[2]] * TRIGGER_PARTITIONS),
        ]
        for created in admin.create_topics(topics).values():
            created.result(20)
        yield started


def states(cluster: RealCluster, *node_ids: int, topic: str = TOPIC) -> dict[int, tuple[int, set[int]]]:
    """Leader and in-sync replicas of every partition, according to one of these nodes, or to any running broker."""
    with cluster.client(*node_ids) as client:
        return {one.id: (one.leader, set(one.isr)) for one in client.topics([topic])[topic].partitions}


def write(cluster: RealCluster, name: str) -> list[bytes]:
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
    producer = Producer(settings)
    failures = []
    values = [f"{name} {number}".encode() for number in range(60)]
    for number, value in enumerate(values):
        producer.produce(
            TOPIC, value, partition=number % PARTITIONS, on_delivery=lambda error, _: error and failures.append(error)
        )
    assert producer.flush(30) == 0
    assert not failures
    return values


def touch_every_dir(cluster: RealCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1, "message.timeout.ms": 5000, "log_level": 0})
    for number in range(TRIGGER_PARTITIONS):
        producer.produce(TRIGGER, b"", partition=number)
    producer.flush(5)


def read_all(cluster: RealCluster, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[bytes] = []

    def is_read() -> bool:
        found.extend(message.value() or b"" for message in consumer.consume(1000, timeout=0.2))
        return len(found) >= count

    wait_for(f"{count} records", is_read)
    consumer.close()
    return found


def partitions_in(log_dir: Path) -> set[int]:
    names = (path.name.removeprefix(f"{TOPIC}-") for path in log_dir.glob(f"{TOPIC}-*"))
    return {int(name) for name in names if name.isdecimal()}


def log_bytes(log_dir: Path, number: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((log_dir / f"{TOPIC}-{number}").glob("*.log")))


def copies(cluster: RealCluster, number: int) -> list[bytes]:
    return [
        log_bytes(log_dir, number)
        for node in cluster.brokers
        for log_dir in node.log_dirs
        if number in partitions_in(log_dir)
    ]


@pytest.mark.parametrize(
    "is_emptied", [False, pytest.param(True, marks=pytest.mark.tier("proof"))], ids=["repaired", "replaced"]
)
def test_partitions_of_an_offline_log_dir_fail_over_and_recover(cluster: RealCluster, is_emptied: bool) -> None:
    written = write(cluster, "before")
    victim = cluster.nodes[2]
    log_dir = victim.log_dirs[2]
    offline = partitions_in(log_dir)
    kept = set(range(PARTITIONS)) - offline
    led_there = {number for number, (leader, _) in states(cluster).items() if leader == 2 and number in offline}
    assert offline and kept, "both log dirs must hold partitions"
    log_dir.rename(log_dir.with_name("gone"))
    touch_every_dir(cluster)

    def others_took_over() -> bool:
        views = [states(cluster, node_id) for node_id in ALL]
        return all(view[number][0] != 2 and view[number][1] == ALL - {2} for view in views for number in offline)

    wait_for("new leaders of the offline replicas", others_took_over)
    wait_for("the ISR of the other log dir", lambda: all(states(cluster)[number][1] == ALL for number in kept))
    if led_there:
        with RawConnection(victim.port) as connection:
            refused = produce_to(connection, min(led_there))
            assert refused in (ErrorCode.kafka_storage_error, ErrorCode.not_leader_or_follower)
    # Long enough for a replica that has all records to rejoin the ISR.
    time.sleep(0.5)
    now = states(cluster)
    assert all(now[number][0] != 2 and 2 not in now[number][1] for number in offline), (
        "an offline replica is in the ISR"
    )
    written += write(cluster, "without it")

    victim.kill()
    if is_emptied:
        log_dir.mkdir()
    else:
        log_dir.with_name("gone").rename(log_dir)
    victim.start()
    wait_for("all in sync", lambda: all(isr == ALL for _, isr in states(cluster).values()))
    wait_for(
        "leaders of the partitions with one replica",
        lambda: all(leader == 2 for leader, _ in states(cluster, topic=TRIGGER).values()),
    )
    written += write(cluster, "after")
    assert sorted(read_all(cluster, len(written))) == sorted(written)
    for number in range(PARTITIONS):
        wait_for(f"equal copies of {number}", lambda number=number: len(set(copies(cluster, number))) == 1)  # type: ignore[misc]
        assert len(copies(cluster, number)) == 3
    shutil.rmtree(log_dir.with_name("gone"), ignore_errors=True)


def produce_to(connection: RawConnection, number: int) -> ErrorCode:
    response = connection.request(
        PRODUCE,
        9,
        {
            "acks": -1,
            "timeout": 5000,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": number, "records": b""}]}],
        },
    )
    code = response.responses[0].partition_responses[0].error_code
    assert isinstance(code, ErrorCode)
    return code
