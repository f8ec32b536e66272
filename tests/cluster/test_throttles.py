"""Replication throttles: a reassignment takes as long as its rate requires, with Kafka's tool and with Odradek's."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.ids import TopicPartition
from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.reassignments import Reassignments
from odradek.client.throttles import FOLLOWERS, LEADERS, RATES
from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for
from tests.kafka.apache_kafka import KafkaTools
from tests.patience import withheld_seconds
from tests.wire.up_process import call

MEGABYTE = 1 << 20
SIZE_BYTES = 4 * MEGABYTE
BYTES_PER_S = MEGABYTE
SECONDS = SIZE_BYTES / BYTES_PER_S
WINDOWS = 2
WATCH_S_MAX = 120
"""For the start of a reassignment, and for its end: Kafka's Java tool starts slowly."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    # Small fetch responses, so that little data passes before the throttle takes effect.
    with real_cluster(
        tmp_path_factory.mktemp("throttled"),
        dict.fromkeys((1, 2), COMBINED),
        properties={"replica.fetch.max.bytes": "65536", "replication.quota.window.num": str(WINDOWS)},
    ) as started:
        yield started


@pytest.fixture(autouse=True)
def forgotten(cluster: RealCluster) -> None:
    """Wait until the quota windows no longer contain traffic of the previous test."""
    time.sleep(WINDOWS + 0.1)


def filled_topic(cluster: RealCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1]])])[topic].result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 16384, "compression.type": "none"})
    for _ in range(SIZE_BYTES // 4096):
        producer.produce(topic, b"x" * 4000, partition=0)
        producer.poll(0)
    assert producer.flush(20) == 0


def plan_file(directory: Path, topic: str) -> str:
    file = directory / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2]}]}))
    return str(file)


class ReassignmentWatch(threading.Thread):
    """Measures a reassignment from start to end, regardless of which tool starts it."""

    def __init__(self, cluster: RealCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._absent_at = time.monotonic()
        self._seconds: float | None = None
        self._seconds_max = 0.0
        self._withheld_s = 0.0
        self.start()

    def run(self) -> None:
        with self._cluster.client() as client:
            reassignments = Reassignments(client)
            wait_for("a reassignment", lambda: self._sees(reassignments), WATCH_S_MAX)
            before = withheld_seconds()
            self._seconds = wait_for("its end", lambda: not reassignments.list_ongoing(), WATCH_S_MAX)
            self._seconds_max = time.monotonic() - self._absent_at
            self._withheld_s = withheld_seconds() - before

    def _sees(self, reassignments: Reassignments) -> bool:
        looked_at = time.monotonic()
        if reassignments.list_ongoing():
            return True
        self._absent_at = looked_at
        return False

    def seconds(self) -> float:
        """Seconds from the first observation of the reassignment to its end."""
        self.join()
        assert self._seconds is not None, "the reassignment never started or never ended"
        return self._seconds

    def assert_took(self, expected: float) -> None:
        """Assert that it was not faster than the rate allows, and slower only by the CPU time withheld meanwhile.

        It may have started as early as the last query that found no reassignment.
        """
        seconds, tolerance = self.seconds(), max(0.2 * expected, 0.5)
        assert self._seconds_max >= expected - tolerance
        assert seconds <= expected + tolerance + self._withheld_s, (seconds, self._withheld_s)


def wait_for_throttles(cluster: RealCluster, topic: str, *values: str) -> None:
    """Wait until the controller's change has reached the brokers."""
    wait_for(f"throttles of {values}", lambda: throttles(cluster, topic) == set(values))


def throttles(cluster: RealCluster, topic: str) -> set[str | None]:
    """The values of all throttle configs that are not defaults."""
    with cluster.client() as client:
        admin = Admin(client)
        values = admin.configs(Resource(ResourceType.TOPIC, topic), (LEADERS, FOLLOWERS))
        for broker in ("1", "2"):
            values += admin.configs(Resource(ResourceType.BROKER, broker), RATES)
        return {one.value for one in values if not one.is_default}


@pytest.mark.kafka
def test_kafka_reassign_partitions_sets_and_removes_throttles(
    cluster: RealCluster, tmp_path: Path, apache_kafka_libs: Path
) -> None:
    filled_topic(cluster, "by-kafka")
    file = plan_file(tmp_path, "by-kafka")
    tools = KafkaTools(apache_kafka_libs, cluster.bootstrap)
    watch = ReassignmentWatch(cluster)
    tools.reassign_partitions("--reassignment-json-file", file, "--execute", "--throttle", str(BYTES_PER_S))
    wait_for_throttles(cluster, "by-kafka", "0:1", "0:2", str(BYTES_PER_S))
    watch.assert_took(SECONDS)
    verified = tools.reassign_partitions("--reassignment-json-file", file, "--verify")
    assert "Clearing topic-level throttles on topic by-kafka" in verified
    wait_for_throttles(cluster, "by-kafka")


@pytest.mark.tier("proof")
def test_throttled_reassignment_takes_as_long_as_its_rate_requires(cluster: RealCluster, tmp_path: Path) -> None:
    filled_topic(cluster, "by-odradek")
    command = ("reassign", "apply", plan_file(tmp_path, "by-odradek"), "-y", "-b", cluster.bootstrap)
    watch = ReassignmentWatch(cluster)
    applied = call(*command, "--throttle", str(BYTES_PER_S))
    assert applied.returncode == 0, applied
    wait_for_throttles(cluster, "by-odradek", "0:1", "0:2", str(BYTES_PER_S))
    watch.assert_took(SECONDS)
    over = call("reassign", "status", "-b", cluster.bootstrap)
    assert "Removed the replication throttles." in over.stderr
    wait_for_throttles(cluster, "by-odradek")


@pytest.mark.parametrize(("broker", "side"), [("1", "leader"), ("2", "follower")])
@pytest.mark.tier("proof")
def test_leader_and_follower_throttles_each_limit_replication(cluster: RealCluster, broker: str, side: str) -> None:
    topic = f"limited-by-{side}"
    filled_topic(cluster, topic)
    watch = ReassignmentWatch(cluster)
    with cluster.client() as client:
        admin = Admin(client)
        admin.alter_configs(
            Resource(ResourceType.TOPIC, topic), changes={f"{side}.replication.throttled.replicas": "*"}
        )
        rate = {f"{side}.replication.throttled.rate": str(2 * BYTES_PER_S)}
        admin.alter_configs(Resource(ResourceType.BROKER, broker), changes=rate)
        assert not Reassignments(client).start({TopicPartition(topic, 0): (2,)})
        watch.assert_took(SECONDS / 2)
        admin.alter_configs(Resource(ResourceType.BROKER, broker), changes={}, removals=rate)


@pytest.mark.tier("proof")
def test_throttle_can_be_changed_during_a_reassignment(cluster: RealCluster, tmp_path: Path) -> None:
    filled_topic(cluster, "changed")
    command = ("reassign", "apply", plan_file(tmp_path, "changed"), "-y", "-b", cluster.bootstrap)
    watch = ReassignmentWatch(cluster)
    assert call(*command, "--throttle", "10000").returncode == 0
    time.sleep(0.5)
    assert watch.is_alive()
    assert call(*command, "--throttle", str(100 * MEGABYTE)).returncode == 0
    assert watch.seconds() < 60, "the first limit would have taken minutes"
    assert call("reassign", "status", "-b", cluster.bootstrap).returncode == 0
    wait_for_throttles(cluster, "changed")
