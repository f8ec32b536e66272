"""A group of the consumer protocol on three brokers: when its coordinator dies, members keep their assignments."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for
from tests.cluster.test_groups import PARTITIONS, PROPERTIES, Reader, coordinator, create_topic, write

QUICK = {"group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "500"}
RECORDS = 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(
        tmp_path_factory.mktemp("consumer-groups"), dict.fromkeys((1, 2, 3), COMBINED), properties=PROPERTIES | QUICK
    ) as started:
        yield started


class NewReader(Reader):
    """A member of the consumer protocol."""

    def new_consumer(self, settings: dict[str, object]) -> Consumer:
        of_classic_members = ("session.timeout.ms", "heartbeat.interval.ms")
        given = {name: value for name, value in settings.items() if name not in of_classic_members}
        return Consumer({**given, "group.protocol": "consumer"})


def poll_all(readers: list[NewReader]) -> int:
    for reader in readers:
        reader.poll()
    return sum(len(reader.read) for reader in readers)


def test_consumer_protocol_members_keep_assignments_when_the_coordinator_is_killed(cluster: RealCluster) -> None:
    topic = "going-on"
    create_topic(cluster, topic)
    readers = [NewReader(cluster, "steady", topic) for _ in range(2)]
    written = [b"%d" % number for number in range(2 * RECORDS)]

    def are_sharing() -> bool:
        poll_all(readers)
        return [len(reader.consumer.assignment()) for reader in readers] == [PARTITIONS // 2] * 2

    wait_for("equal assignments", are_sharing)
    write(cluster, topic, written[:RECORDS])
    wait_for("the first half", lambda: poll_all(readers) >= RECORDS)
    for reader in readers:
        wait_for("a commit", reader.commit)
    before = [(reader.changes, sorted(reader.consumer.assignment())) for reader in readers]
    coordinator(cluster, "steady").kill()
    write(cluster, topic, written[RECORDS:])
    wait_for("the second half", lambda: poll_all(readers) >= 2 * RECORDS)
    for reader in readers:
        wait_for("a commit after the coordinator's death", reader.commit)
    # Wait long enough for heartbeats to reach the new coordinator.
    end = time.monotonic() + 3
    while time.monotonic() < end:
        poll_all(readers)
    after = [(reader.changes, sorted(reader.consumer.assignment())) for reader in readers]
    for reader in readers:
        reader.consumer.close()
    cluster.start_the_dead()
    assert after == before, "an assignment changed"
    assert sorted(record for reader in readers for record in reader.read) == sorted(written)
