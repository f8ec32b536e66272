"""Closed segments are read under leases from the log dirs of three brokers, while leaders change, die and restart.

The test compares every record read with the records that producers saw acknowledged.
"""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from pyspark.sql.datasource import DataSourceReader

import odradek
from odradek.base.ids import TopicPartition
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.leases import PATH, LeaseClient, LeaseCredentials, LeaseRenewer, NoLease
from odradek.client.node_http import NoEndpoint, find_endpoint, query_endpoint
from odradek.client.reassignments import Reassignments
from odradek.pipelines.arrow.leased_segments import LeasedSegments
from odradek.pipelines.arrow.reading import record_batches
from odradek.pipelines.arrow.schema import arrow_schema
from odradek.pipelines.arrow.sources import Chunk
from odradek.pipelines.spark.source import OdradekSource
from odradek.pipelines.spark.tasks import ReadTask
from tests.cluster.real_cluster import (
    REPLICATED_COORDINATORS,
    Member,
    RealCluster,
    real_cluster,
    roles_of,
    wait_for,
)
from tests.leasing_process import SPARK
from tests.node_process import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TOPIC = "orders"
PARTITIONS = 3
FIRST = TopicPartition(TOPIC, 0)
RECORDS_EACH = 8_000
CREDENTIALS = LeaseCredentials(*SPARK)
Row = tuple[int, int, bytes]
"""Partition, offset, value."""


class Written:
    """Offsets and values of all acknowledged records, without those of aborted transactions."""

    def __init__(self) -> None:
        self.values: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]

    def note(self, error: object, message: Message) -> None:
        assert error is None, error
        offset, partition, value = message.offset(), message.partition(), message.value()
        assert offset is not None and partition is not None and isinstance(value, bytes)
        assert offset not in self.values[partition]
        self.values[partition][offset] = value

    def reached(self) -> list[int]:
        """The last acknowledged offset of each partition."""
        return [max(known) for known in self.values]

    def below(self, ends: dict[int, int]) -> list[Row]:
        return [
            (partition, offset, value)
            for partition, known in enumerate(self.values)
            for offset, value in sorted(known.items())
            if offset < ends[partition]
        ]


class Stage:
    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self.written = Written()
        self.number = 0

    def fill(
        self, *, is_aborted: bool = False, records_each: int = RECORDS_EACH // 4, without: Member | None = None
    ) -> None:
        """`without`: a frozen node, to which the producer must not connect."""
        bootstrap = ",".join(one.bootstrap for one in self.cluster.running if one is not without)
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "none"}
        producer = Producer({**settings, "transactional.id": "filling"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for _ in range(records_each):
            for partition in range(PARTITIONS):
                self._produce(producer, partition, notes=not is_aborted)
        assert producer.flush(60) == 0
        producer.abort_transaction(60) if is_aborted else producer.commit_transaction(60)

    def write_until(self, is_over: Event) -> None:
        """Produce through leader changes: an idempotent producer retries unacknowledged records."""
        settings = {"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 5, "acks": "all"}
        producer = Producer({**settings, "enable.idempotence": True, "compression.type": "none"})
        while not is_over.wait(0.02):
            for partition in range(PARTITIONS):
                for _ in range(5):
                    self._produce(producer, partition, notes=True)
            producer.poll(0)
        assert producer.flush(60) == 0

    def _produce(self, producer: Producer, partition: int, *, notes: bool) -> None:
        self.number += 1
        value = b"%d %0400d" % (partition, self.number)
        producer.produce(TOPIC, value, partition=partition, on_delivery=self.written.note if notes else None)
        producer.poll(0)

    def leader(self, partition: TopicPartition = FIRST, *, without: Member | None = None) -> Member:
        """Wait until all running nodes except `without` agree on the leader, and return it."""
        queried = {one.node_id for one in self.cluster.running if one is not without}
        leaders: set[int] = set()

        def agree() -> bool:
            leaders.clear()
            for node_id in queried:
                with self.cluster.client(node_id) as client:
                    leaders.add(client.topics([TOPIC])[TOPIC].partitions[partition.partition].leader)
            return len(leaders) == 1 and leaders <= queried

        wait_for("agreement on the leader", agree)
        return self.cluster.nodes[leaders.pop()]

    def move_leader(self, partition: TopicPartition = FIRST) -> Member:
        """Make the replica after the leader the preferred one and elect it. Returns the old leader."""
        with self.cluster.client() as client:
            layout = client.topics([TOPIC])[TOPIC].partitions[partition.partition]
            # The leader is not always the preferred one.
            following = layout.replicas.index(layout.leader) + 1
            order = [*layout.replicas[following:], *layout.replicas[:following]]
            reassignments = Reassignments(client)
            assert reassignments.start({partition: order}) == {}
            wait_for("the new order of replicas", lambda: not reassignments.list_ongoing())
            reassignments.elect_preferred([partition])
        wait_for("another leader", lambda: self.leader(partition).node_id == order[0])
        return self.cluster.nodes[layout.leader]

    def wait_until_in_sync(self) -> None:
        """Check every running node, because a node that has just woken up does not know yet that it fell behind."""

        def sees_all_in_sync(node: Member) -> bool:
            with self.cluster.client(node.node_id) as client:
                layout = client.topics([TOPIC])[TOPIC]
            return all(len(one.isr) == 3 for one in layout.partitions)

        wait_for("all replicas in sync", lambda: all(sees_all_in_sync(node) for node in self.cluster.running))

    def begin(self) -> "Reading":
        return Reading(self)

    def links(self, node: Member) -> list[Path]:
        return [one for one in node.log_dirs[0].iterdir() if one.name.startswith(".lease-")]

    def check(self, found: list[Row], reached: list[int]) -> None:
        """Assert that each committed record was read once, up to `reached` or further, and no aborted record."""
        ends = {number: max(offset for one, offset, _ in found if one == number) + 1 for number in range(PARTITIONS)}
        assert found == self.written.below(ends)
        assert all(ends[number] > reached[number] > RECORDS_EACH // 2 for number in range(PARTITIONS))


class Reading:
    """A read that holds its leases and has returned only its first batch."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._reached = stage.written.reached()
        self._batches = odradek.read_topic(
            TOPIC,
            bootstrap_servers=",".join(node.bootstrap for node in stage.cluster.brokers),
            columns=["partition", "offset", "value"],
            lease=SPARK,
            batch_rows=500,
        )
        self._found = rows(self._batches.read_next_batch())

    def finish(self) -> None:
        for batch in self._batches:
            self._found += rows(batch)

    def check(self) -> None:
        self._stage.check(self._found, self._reached)


def rows(batch: Any) -> list[Row]:
    names = ("partition", "offset", "value")
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("leases")
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    with real_cluster(
        directory,
        roles_of(combined=ports),
        properties={
            **REPLICATED_COORDINATORS,
            "log.segment.bytes": str(1 << 20),
        },
        properties_of={node_id: {"http.address": str(port)} for node_id, port in ports.items()},
    ) as cluster:
        with cluster.client() as client:
            Admin(client).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        stage = Stage(cluster)
        for is_aborted in (False, True, False, True, False):
            stage.fill(is_aborted=is_aborted)
        yield stage


def request_lease_of_each(stage: Stage, client: Cluster, partition: TopicPartition) -> dict[int, bool]:
    """Return which nodes grant a lease; the others respond that they are not the leader."""
    granted = {}
    query = f"?topic={partition.topic}&partition={partition.partition}&duration_ms=1"
    for node in stage.cluster.running:
        endpoint = find_endpoint(client, node.node_id, node.host)
        cluster_id = client.layout().cluster_id
        try:
            options: dict[str, Any] = {"method": "POST", "headers": CREDENTIALS.headers, "timeout_s": 30}
            query_endpoint(endpoint, PATH + query, cluster_id, node.node_id, **options)
            granted[node.node_id] = True
        except NoEndpoint as refused:
            assert refused.status == 409 and f"is not the leader of {partition}" in str(refused)
            granted[node.node_id] = False
    return granted


def test_only_the_leader_grants_leases(stage: Stage) -> None:
    with stage.cluster.client() as client:
        for number in range(PARTITIONS):
            partition = TopicPartition(TOPIC, number)
            for _ in range(2):
                leader = stage.leader(partition).node_id
                assert request_lease_of_each(stage, client, partition) == {
                    node: node == leader for node in stage.cluster.nodes
                }
                stage.move_leader(partition)


def test_lease_client_finds_the_new_leader_after_a_leader_change(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that refuses one partition is still queried for others, and a refusal of an old leader is retried."""
    with stage.cluster.client() as client:
        leases = LeaseClient(client, CREDENTIALS, duration_ms=60_000)
        before = client.layout([TOPIC])
        stage.move_leader()
        fresh = client.layout
        layouts = iter([before])
        monkeypatch.setattr(client, "layout", lambda topics=(): next(layouts, None) or fresh(topics))
        held = leases.request(FIRST, start=0, end=2**62, read_committed=True)
        assert held is not None and held.node_id == stage.leader().node_id
        LeaseRenewer(CREDENTIALS).release([held])

        # If the metadata stays stale, the refusal is raised and then forgotten.
        monkeypatch.setattr(client, "layout", lambda topics=(): before)
        with pytest.raises(NoLease, match=f"is not the leader of {FIRST}"):
            leases.request(FIRST, start=0, end=2**62, read_committed=True)
        monkeypatch.setattr(client, "layout", fresh)
        assert leases._refusals == {}


@pytest.mark.tier("proof")
def test_leased_reads_are_complete_while_leaders_change_die_and_restart(stage: Stage) -> None:
    is_over = Event()
    writer = Thread(target=stage.write_until, args=[is_over])
    writer.start()
    try:
        # Leases of a node that is no longer the leader.
        moved = stage.begin()
        assert all(stage.links(stage.leader(TopicPartition(TOPIC, number))) for number in range(PARTITIONS))
        old = stage.move_leader()
        moved.finish()
        # Releasing a lease does not wait long for the response of a busy broker.
        wait_for("the release of the lease on the old leader", lambda: not stage.links(old))

        # The files of a dead broker can still be read.
        died = stage.begin()
        victim = stage.leader()
        victim.kill()
        died.finish()
        assert stage.links(victim)

        # The new leader grants leases; the dead broker removes its links when it restarts.
        assert stage.leader() is not victim
        without = stage.begin()
        assert stage.links(stage.leader())
        without.finish()
        stage.cluster.start_the_dead()
        wait_for("the links to be removed", lambda: not stage.links(victim))
        stage.wait_until_in_sync()

        # Killed and restarted before its files were read: the links are removed, and the read falls back to fetching.
        came_back = stage.begin()
        victim = stage.leader()
        victim.kill()
        victim.start()
        wait_for("the links to be removed", lambda: not stage.links(victim))
        came_back.finish()
    finally:
        is_over.set()
        writer.join()
    stage.cluster.wait_until_whole()
    for reading in (moved, died, without, came_back):
        reading.check()


@pytest.mark.tier("proof")
def test_lease_of_a_woken_old_leader_contains_only_committed_records(stage: Stage) -> None:
    """A woken leader may not know yet that it was replaced: a lease it grants must cover only committed records."""
    stage.wait_until_in_sync()
    with stage.cluster.client() as client:
        before = client.layout([TOPIC])
        sleeper = stage.leader()
        sleeper.freeze()
        try:
            assert stage.leader(without=sleeper) is not sleeper
            stage.fill(records_each=500, without=sleeper)
        finally:
            sleeper.wake()
        with pytest.MonkeyPatch.context() as planted:
            planted.setattr(client, "layout", lambda topics=(): before)
            try:
                held = LeaseClient(client, CREDENTIALS).request(FIRST, start=0, end=2**62, read_committed=True)
            except NoLease as refused:
                held = None
                assert "is not the leader of" in str(refused) or "has changed" in str(refused)
    if held is not None:
        assert held.node_id == sleeper.node_id
        end = held.files[-1].limit
        source = LeasedSegments(held, NoBrokers(), read_committed=True)
        schema = arrow_schema(["partition", "offset", "value"])
        found = [row for batch in record_batches(source, schema, 0, end) for row in rows(batch)]
        assert found == stage.written.below({0: end, 1: 0, 2: 0})


class NoBrokers:
    """A PartitionSource that must not be read."""

    partition = FIRST
    earliest_offset = end_offset = readable_offset = 0

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        raise AssertionError(f"read of offsets {from_offset} to {to_offset}")


@pytest.mark.tier("proof")
def test_spark_tasks_fall_back_to_brokers_after_their_leader_died(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The data source as Spark calls it: planned with leases, run after a leader died, and again after its restart."""
    stage.wait_until_in_sync()
    reached = stage.written.reached()
    reader = batch_reader(stage)
    tasks = [task for task in reader.partitions() if isinstance(task, ReadTask)]
    assert {task.offsets.partition.partition for task in tasks if task.held is not None} == set(range(PARTITIONS))
    victim = stage.leader()
    victim.kill()
    stage.check(task_rows(reader, tasks), reached)

    stage.cluster.start_the_dead()
    wait_for("the links to be removed", lambda: not stage.links(victim))
    assert "from brokers from offset" not in caplog.text
    stage.check(task_rows(reader, tasks), reached)
    assert "from brokers from offset" in caplog.text


def batch_reader(stage: Stage) -> DataSourceReader:
    source = OdradekSource(
        {
            "kafka.bootstrap.servers": stage.cluster.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "minPartitions": "6",
            "columns": "partition,offset,value",
            "leasePrincipal": SPARK[0],
            "leaseSecret": SPARK[1],
        }
    )
    return source.reader(source.schema())


def task_rows(reader: DataSourceReader, tasks: list[ReadTask]) -> list[Row]:
    found = [row for task in tasks for batch in reader.read(task) for row in rows(batch)]
    return sorted(found)
