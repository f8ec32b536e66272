"""Groups on three brokers: when a coordinator dies, members keep their assignments and no committed offset is lost."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.errors import ErrorCode
from tests.apis import Api, latest
from tests.cluster.real_cluster import COMBINED, Member, RealCluster, real_cluster, wait_for
from tests.raw_wire import ConnectionClosed, RawConnection

OFFSETS = "__consumer_offsets"
PROPERTIES = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(
        tmp_path_factory.mktemp("groups"), dict.fromkeys((1, 2, 3), COMBINED), properties=PROPERTIES
    ) as started:
        yield started


@pytest.fixture(autouse=True)
def whole(cluster: RealCluster) -> Iterator[None]:
    yield
    cluster.start_the_dead()


def create_topic(cluster: RealCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(20)


def request(node: Member, api: Api, fields: dict[str, Any]) -> Any:
    """Return the response, or None if the node does not respond."""
    try:
        with RawConnection(node.port, timeout_s=10) as connection:
            return connection.request(api, latest(api), fields)
    except (OSError, ConnectionClosed):
        return None


def coordinator(cluster: RealCluster, group: str) -> Member:
    """The broker that serves the group, after the new leader has loaded the partition."""
    found: list[Member] = []

    def is_found() -> bool:
        for node in cluster.running:
            response = request(node, Api.FIND_COORDINATOR, {"coordinator_keys": [group]})
            if response is None or response.coordinators[0].error_code is not ErrorCode.none:
                continue
            there = cluster.nodes[response.coordinators[0].node_id]
            fetched = request(there, Api.OFFSET_FETCH, {"groups": [{"group_id": group, "topics": None}]})
            if fetched is not None and fetched.groups[0].error_code is ErrorCode.none:
                found[:] = [there]
                return True
        return False

    wait_for(f"a coordinator of {group}", is_found)
    return found[0]


class Reader:
    """One group member that counts its assignment changes."""

    def __init__(self, cluster: RealCluster, group: str, topic: str) -> None:
        self.consumer = self.new_consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 20_000,
                "heartbeat.interval.ms": 500,
                "log_level": 0,
            }
        )
        self.changes = 0
        self.read: list[bytes] = []
        self.consumer.subscribe([topic], on_assign=self._changed, on_revoke=self._changed)

    def new_consumer(self, settings: dict[str, object]) -> Consumer:
        return Consumer(settings)

    def poll(self, seconds: float = 0.05) -> None:
        message = self.consumer.poll(seconds)
        if message is not None and message.error() is None:
            self.read.append(message.value())

    def commit(self) -> bool:
        """Return whether the commit succeeded."""
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException:
            return False
        return True

    def _changed(self, *_: object) -> None:
        self.changes += 1


def write(cluster: RealCluster, topic: str, names: list[bytes]) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
    )
    for number, name in enumerate(names):
        producer.produce(topic, name, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def test_classic_members_keep_assignments_when_the_coordinator_is_killed(cluster: RealCluster) -> None:
    create_topic(cluster, "going-on")
    readers = [Reader(cluster, "steady", "going-on") for _ in range(2)]
    written = [b"%d" % number for number in range(200)]

    def all_read(count: int) -> bool:
        for reader in readers:
            reader.poll()
        return sum(len(reader.read) for reader in readers) >= count

    # A member that joins late would read records again that the first member has not committed yet.
    wait_for("both to have partitions", lambda: all_read(0) and all(one.consumer.assignment() for one in readers))
    write(cluster, "going-on", written[:100])
    wait_for("the first half", lambda: all_read(100))
    for reader in readers:
        wait_for("a commit", reader.commit)
    before = [(reader.changes, sorted(reader.consumer.assignment())) for reader in readers]
    coordinator(cluster, "steady").kill()
    write(cluster, "going-on", written[100:])
    wait_for("the second half", lambda: all_read(200))
    for reader in readers:
        wait_for("a commit after the coordinator's death", reader.commit)
    # Wait long enough for heartbeats to reach the new coordinator.
    end = time.monotonic() + 3
    while time.monotonic() < end:
        all_read(0)
    after = [(reader.changes, sorted(reader.consumer.assignment())) for reader in readers]
    for reader in readers:
        reader.consumer.close()
    assert after == before, "an assignment changed"
    assert sorted(record for reader in readers for record in reader.read) == sorted(written)


def test_committed_offsets_survive_coordinator_deaths(cluster: RealCluster) -> None:
    create_topic(cluster, "kept")
    committer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "keeper", "enable.auto.commit": False, "log_level": 0}
    )
    acknowledged = 0
    for death in range(3):
        for offset in range(acknowledged + 1, acknowledged + 51):
            try:
                committer.commit(offsets=[TopicPartition("kept", 0, offset)], asynchronous=False)
            except KafkaException:
                continue
            acknowledged = offset
        there = coordinator(cluster, "keeper")
        there.kill()
        successor = coordinator(cluster, "keeper")
        assert successor is not there
        response = request(successor, Api.OFFSET_FETCH, {"groups": [{"group_id": "keeper", "topics": None}]})
        (partition,) = response.groups[0].topics[0].partitions
        assert partition.committed_offset >= acknowledged, f"death {death}"
        acknowledged = partition.committed_offset
        cluster.start_the_dead()
    committer.close()
    assert acknowledged >= 150


def test_generation_and_assignment_survive_coordinator_failover(cluster: RealCluster) -> None:
    """On the wire: the same generation, the same assignment, and no rebalance."""
    there = coordinator(cluster, "lasting")
    me: dict[str, Any] = {
        "group_id": "lasting",
        "member_id": "",
        "session_timeout": 20_000,
        "rebalance_timeout": 20_000,
    }
    me |= {"protocol_type": "consumer", "protocol_name": "range", "protocols": [{"name": "range", "metadata": b""}]}
    me["member_id"] = request(there, Api.JOIN_GROUP, me).member_id
    joined = request(there, Api.JOIN_GROUP, me)
    assert joined.error_code is ErrorCode.none
    me["generation_id"] = joined.generation_id
    me["assignments"] = [{"member_id": me["member_id"], "assignment": b"all of it"}]
    assert request(there, Api.SYNC_GROUP, me).assignment == b"all of it"
    there.kill()
    successor = coordinator(cluster, "lasting")
    assert request(successor, Api.HEARTBEAT, me).error_code is ErrorCode.none
    assert request(successor, Api.SYNC_GROUP, me).assignment == b"all of it"
    (described,) = request(successor, Api.DESCRIBE_GROUPS, {"groups": ["lasting"]}).groups
    assert (described.group_state, len(described.members)) == ("Stable", 1)


def test_other_brokers_respond_not_coordinator(cluster: RealCluster) -> None:
    there = coordinator(cluster, "elsewhere")
    other = next(node for node in cluster.running if node is not there)
    group = {"group_id": "elsewhere", "member_id": "x", "generation_id": 1}
    assert request(other, Api.HEARTBEAT, group).error_code is ErrorCode.not_coordinator
    assert request(other, Api.JOIN_GROUP, {**group, "session_timeout": 10_000}).error_code is ErrorCode.not_coordinator
    fetched = request(other, Api.OFFSET_FETCH, {"groups": [{"group_id": "elsewhere", "topics": None}]})
    assert fetched.groups[0].error_code is ErrorCode.not_coordinator
    assert (
        request(other, Api.DESCRIBE_GROUPS, {"groups": ["elsewhere"]}).groups[0].error_code is ErrorCode.not_coordinator
    )
    assert request(other, Api.DELETE_GROUPS, {"groups_names": ["elsewhere"]}).results[0].error_code is (
        ErrorCode.not_coordinator
    )


def test_offset_commit_fails_below_min_insync_replicas(cluster: RealCluster) -> None:
    """`min.insync.replicas` applies to offset commits too: a coordinator without in-sync followers rejects them."""
    create_topic(cluster, "single-replica")
    there = coordinator(cluster, "alone")
    found: list[Any] = []

    def is_known() -> bool:
        response = request(there, Api.METADATA, {"topics": [{"name": "single-replica"}]})
        found[:] = [] if response is None else [one for one in response.topics if one.error_code is ErrorCode.none]
        return bool(found)

    wait_for("the topic to be known there", is_known)
    commit = {
        "group_id": "alone",
        "generation_id_or_member_epoch": -1,
        "topics": [
            {
                "topic_id": found[0].topic_id,
                "partitions": [{"partition_index": 0, "committed_offset": 7}],
            }
        ],
    }

    def code() -> ErrorCode:
        response = request(there, Api.OFFSET_COMMIT, commit)
        return ErrorCode.unknown_server_error if response is None else response.topics[0].partitions[0].error_code

    assert code() is ErrorCode.none
    for node in cluster.running:
        if node is not there:
            node.freeze()
    try:
        # The request first waits for the followers; later the controller has fenced them.
        assert code() is ErrorCode.coordinator_not_available
    finally:
        for node in cluster.running:
            node.wake()
    wait_for("commits again", lambda: code() is ErrorCode.none)
