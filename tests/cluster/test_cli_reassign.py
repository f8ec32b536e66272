"""`odradek reassign` on four nodes: a broker is drained under writes and filled again."""

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.real_cluster import BROKER, COMBINED, RealCluster, real_cluster, wait_for
from tests.wire.up_process import call, error_line

TOPIC = "orders"
PARTITIONS = 6
RACKS = {1: "a", 2: "b", 3: "c", 4: "c"}


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    roles: dict[int, Sequence[str]] = {1: COMBINED, 2: COMBINED, 3: COMBINED, 4: (BROKER,)}
    racks = {node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()}
    with real_cluster(tmp_path_factory.mktemp("racks"), roles, properties_of=racks) as started:
        yield started


@pytest.fixture
def cluster(four_nodes: RealCluster) -> Iterator[RealCluster]:
    """The cluster with all nodes running and a fresh topic."""
    assignment = [[1 + (number + step) % 3 for step in range(3)] for number in range(PARTITIONS)]
    topic = NewTopic(TOPIC, PARTITIONS, replica_assignment=assignment, config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": four_nodes.bootstrap})
    admin.create_topics([topic])[TOPIC].result(20)
    yield four_nodes
    four_nodes.start_the_dead()
    admin.delete_topics([TOPIC])[TOPIC].result(20)


class Writer(threading.Thread):
    """An idempotent producer that writes until it is stopped and records the acknowledged offsets."""

    def __init__(self, cluster: RealCluster) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        )
        self._stop_requested = threading.Event()
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.errors: list[Any] = []
        self._sent = 0

    def run(self) -> None:
        while not self._stop_requested.is_set():
            self.write(20)
            self._stop_requested.wait(0.02)

    def write(self, count: int) -> None:
        for _ in range(count):
            value = b"%d " % self._sent + b"x" * 1000
            self._producer.produce(TOPIC, value, partition=self._sent % PARTITIONS, on_delivery=self._delivered)
            self._sent += 1
        assert self._producer.flush(30) == 0

    def stop(self) -> None:
        self._stop_requested.set()
        self.join(60)
        assert not self.is_alive()
        assert self.errors == []
        assert len(self.acknowledged) == self._sent

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged[message.partition() or 0, message.offset() or 0] = message.value() or b""
        else:
            self.errors.append(error)


def read_all(cluster: RealCluster, count: int) -> dict[tuple[int, int], bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}

    def is_read() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            found[message.partition() or 0, message.offset() or 0] = message.value() or b""
        return len(found) >= count

    try:
        wait_for(f"{count} records", is_read)
    finally:
        consumer.close()
    return found


def odradek(cluster: RealCluster, *arguments: str) -> Any:
    """Run a command and return its last JSON output."""
    finished = call(*arguments, "-b", cluster.bootstrap, "--format", "json")
    assert finished.returncode == 0, finished
    return [json.loads(line) for line in finished.stdout.splitlines()][-1]


def replicas(cluster: RealCluster) -> list[list[int]]:
    (described,) = odradek(cluster, "topic", "describe", TOPIC)
    return [partition["replicas"] for partition in described["partitions"]]


def leaders(cluster: RealCluster) -> dict[int, int]:
    """Return the number of partitions that each broker leads."""
    return {one["broker"]: one["leaders"] for one in odradek(cluster, "cluster", "balance")["brokers"]}


def wait_for_replicas_on(cluster: RealCluster, node_ids: list[int]) -> None:
    """Wait until the brokers have applied the reassignment."""
    wait_for(f"replicas on {node_ids}", lambda: all(sorted(held) == node_ids for held in replicas(cluster)))


def replica_dirs(cluster: RealCluster, node_id: int) -> list[Path]:
    return [path for log_dir in cluster.nodes[node_id].log_dirs for path in log_dir.glob(f"{TOPIC}-[0-9]")]


def test_reassign_drains_and_refills_a_broker_under_writes(cluster: RealCluster, tmp_path: Path) -> None:
    writer = Writer(cluster)
    writer.write(1200)
    writer.start()
    file = str(tmp_path / "plan.json")

    drained = odradek(cluster, "reassign", "plan", "--drain", "3", "--throttle", "1000", "--out", file)
    assert len(drained["moves"]) == PARTITIONS
    assert drained["bytes_to_copy"] > 1_200_000
    assert drained["seconds_at_throttle"] == drained["bytes_to_copy"] / 1000
    assert 3 in replicas(cluster)[0], "planning must not reassign anything"
    assert odradek(cluster, "reassign", "apply", file, "--yes")["begun"] == PARTITIONS
    watched = odradek(cluster, "reassign", "status", "--watch")
    assert watched["moves"] == []
    wait_for_replicas_on(cluster, [1, 2, 4])
    wait_for("the old replicas to be deleted", lambda: not replica_dirs(cluster, 3))
    assert odradek(cluster, "reassign", "apply", file, "--yes")["begun"] == 0

    odradek(cluster, "topic", "elect")
    wait_for("preferred leaders", lambda: leaders(cluster) == {1: 2, 2: 2, 3: 0, 4: 2})
    balance = odradek(cluster, "cluster", "balance")
    assert {one["broker"]: one["replicas"] for one in balance["brokers"]} == {1: 6, 2: 6, 3: 0, 4: 6}
    assert balance["largest"][0]["bytes"] > 200_000

    # Broker 3 shares its rack with broker 4, so it can get replicas only from there.
    filled = odradek(cluster, "reassign", "plan", "--add-broker", "3", "--out", file)
    assert {tuple(set(move["from"]) - set(move["to"])) for move in filled["moves"]} == {(4,)}
    odradek(cluster, "reassign", "apply", file, "--yes")
    odradek(cluster, "reassign", "status", "--watch")
    assert len(replica_dirs(cluster, 3)) == 3
    wait_for("the old replicas to be deleted", lambda: len(replica_dirs(cluster, 4)) == 3)
    writer.stop()
    assert read_all(cluster, len(writer.acknowledged)) == writer.acknowledged


@pytest.mark.tier("proof")
def test_reassignment_to_a_dead_broker_is_listed_and_cancelled(cluster: RealCluster, tmp_path: Path) -> None:
    Writer(cluster).write(60)
    file = tmp_path / "plan.json"
    address = cluster.bootstrap
    assert "broker 9 does not exist" in error_line("reassign", "plan", "--drain", "9", "-b", address)
    assert "broker 9 is not online" in error_line("reassign", "plan", "--add-broker", "9", "-b", address)
    assert "would be left" in error_line("reassign", "plan", "--drain", "1,2", "-b", address)
    # __consumer_offsets may exist, so only this topic is planned.
    odradek(cluster, "reassign", "plan", "--drain", "3", "--topic", TOPIC, "--out", str(file))
    cluster.nodes[4].kill()
    wait_for("node 4 to be fenced", lambda: cluster.fenced() == {4})

    assert odradek(cluster, "reassign", "apply", str(file), "--yes")["begun"] == PARTITIONS
    seen = odradek(cluster, "reassign", "status")
    assert {tuple(move["adding"]) for move in seen["moves"]} == {(4,)}
    assert (seen["copied_bytes"], seen["seconds_left"]) == (0, None)
    assert "is already being reassigned" in error_line("reassign", "plan", "--even", "-b", address)
    assert len(odradek(cluster, "reassign", "cancel", "--yes")["cancelled"]) == PARTITIONS
    assert odradek(cluster, "reassign", "status")["moves"] == []
    wait_for_replicas_on(cluster, [1, 2, 3])
