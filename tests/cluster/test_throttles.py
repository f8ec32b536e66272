"""Replication throttles: a move takes the time that its rate says, with Kafka's own tool and with Odradek's."""

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
"""For somebody to begin a move, and for its end: a tool of Java's takes its time."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    # Small answers: what passes at once, before anybody is held back, is to be small beside the whole.
    with real_cluster(
        tmp_path_factory.mktemp("throttled"),
        dict.fromkeys((1, 2), COMBINED),
        properties={"replica.fetch.max.bytes": "65536", "replication.quota.window.num": str(WINDOWS)},
    ) as started:
        yield started


@pytest.fixture(autouse=True)
def forgotten(cluster: RealCluster) -> None:
    """A limit counts what was copied in the last windows, and the pauses in them: none of it from the test before."""
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


class MoveWatch(threading.Thread):
    """Sees a move begin and end, whoever begins it."""

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
            moves = Reassignments(client)
            wait_for("a move", lambda: self._sees(moves), WATCH_S_MAX)
            before = withheld_seconds()
            self._seconds = wait_for("its end", lambda: not moves.ongoing(), WATCH_S_MAX)
            self._seconds_max = time.monotonic() - self._absent_at
            self._withheld_s = withheld_seconds() - before

    def _sees(self, moves: Reassignments) -> bool:
        looked_at = time.monotonic()
        if moves.ongoing():
            return True
        self._absent_at = looked_at
        return False

    def seconds(self) -> float:
        """Since it was first seen."""
        self.join()
        assert self._seconds is not None, "it never began, or never ended"
        return self._seconds

    def assert_took(self, expected: float) -> None:
        """Never quicker than the rate allows, and slower only by what the machine withheld meanwhile.

        It may have begun as early as the last look that found nothing.
        """
        seconds, tolerance = self.seconds(), max(0.2 * expected, 0.5)
        assert self._seconds_max >= expected - tolerance
        assert seconds <= expected + tolerance + self._withheld_s, (seconds, self._withheld_s)


def wait_for_throttles(cluster: RealCluster, topic: str, *values: str) -> None:
    """The controller has them; brokers hear of it a moment later."""
    wait_for(f"throttles of {values}", lambda: throttles(cluster, topic) == set(values))


def throttles(cluster: RealCluster, topic: str) -> set[str | None]:
    """What the configs say that throttles are made of, defaults aside."""
    with cluster.client() as client:
        admin = Admin(client)
        values = admin.configs(Resource(ResourceType.TOPIC, topic), (LEADERS, FOLLOWERS))
        for broker in ("1", "2"):
            values += admin.configs(Resource(ResourceType.BROKER, broker), RATES)
        return {one.value for one in values if not one.is_default}


@pytest.mark.kafka
def test_kafkas_own_tool_throttles_and_takes_it_off(
    cluster: RealCluster, tmp_path: Path, apache_kafka_libs: Path
) -> None:
    filled_topic(cluster, "by-kafka")
    file = plan_file(tmp_path, "by-kafka")
    tools = KafkaTools(apache_kafka_libs, cluster.bootstrap)
    watch = MoveWatch(cluster)
    tools.reassign_partitions("--reassignment-json-file", file, "--execute", "--throttle", str(BYTES_PER_S))
    wait_for_throttles(cluster, "by-kafka", "0:1", "0:2", str(BYTES_PER_S))
    watch.assert_took(SECONDS)
    verified = tools.reassign_partitions("--reassignment-json-file", file, "--verify")
    assert "Clearing topic-level throttles on topic by-kafka" in verified
    wait_for_throttles(cluster, "by-kafka")


@pytest.mark.tier("proof")
def test_a_throttled_move_takes_as_long_as_its_rate_says(cluster: RealCluster, tmp_path: Path) -> None:
    filled_topic(cluster, "by-odradek")
    command = ("reassign", "apply", plan_file(tmp_path, "by-odradek"), "-y", "-b", cluster.bootstrap)
    watch = MoveWatch(cluster)
    applied = call(*command, "--throttle", str(BYTES_PER_S))
    assert applied.returncode == 0, applied
    wait_for_throttles(cluster, "by-odradek", "0:1", "0:2", str(BYTES_PER_S))
    watch.assert_took(SECONDS)
    over = call("reassign", "status", "-b", cluster.bootstrap)
    assert "Removed the replication throttles." in over.stderr
    wait_for_throttles(cluster, "by-odradek")


@pytest.mark.parametrize(("broker", "side"), [("1", "leader"), ("2", "follower")])
@pytest.mark.tier("proof")
def test_each_side_keeps_to_its_own_limit(cluster: RealCluster, broker: str, side: str) -> None:
    topic = f"limited-by-{side}"
    filled_topic(cluster, topic)
    watch = MoveWatch(cluster)
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
def test_a_throttle_can_be_changed_under_way(cluster: RealCluster, tmp_path: Path) -> None:
    filled_topic(cluster, "changed")
    command = ("reassign", "apply", plan_file(tmp_path, "changed"), "-y", "-b", cluster.bootstrap)
    watch = MoveWatch(cluster)
    assert call(*command, "--throttle", "10000").returncode == 0
    time.sleep(0.5)
    assert watch.is_alive()
    assert call(*command, "--throttle", str(100 * MEGABYTE)).returncode == 0
    assert watch.seconds() < 60, "the first limit would have taken minutes"
    assert call("reassign", "status", "-b", cluster.bootstrap).returncode == 0
    wait_for_throttles(cluster, "changed")
