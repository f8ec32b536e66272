"""What the driver plans and tasks do with leased segments: the data source as Spark calls it, without Spark."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.datasource import DataSourceReader

from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.scram_users import ScramUsers
from odradek.core.security.scram_credentials import ITERATIONS_MIN, ScramMechanism
from odradek.pipelines.spark.source import OdradekSource
from odradek.pipelines.spark.stream_reader import StreamReader
from odradek.pipelines.spark.tasks import ReadTask
from tests.leasing_process import SPARK, LeasingProcess
from tests.secured_node import SecuredNode
from tests.wire.plain_requests import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COUNT = 60_000
TOPIC = "leased"
OTHER = ("other", "another-secret")
"""A user without ACLs."""


@pytest.fixture(scope="module")
def leasing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeasingProcess]:
    node = LeasingProcess(tmp_path_factory.mktemp("leasing"))
    SecuredNode(node)
    node.properties["super.users"] += f";User:{SPARK[0]}"
    try:
        node.start()
        with Cluster(parse_bootstrap(node.bootstrap)) as cluster:
            Admin(cluster).create_topic(TOPIC, partitions=1, replication_factor=1)
            for name, password in (SPARK, OTHER):
                ScramUsers(cluster).put(name, ScramMechanism.SHA_256, password, iterations=ITERATIONS_MIN)
        producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, "transactional.id": "one"})
        producer.init_transactions(30)
        for number in range(3):
            producer.begin_transaction()
            for record in range(COUNT // 3):
                producer.produce(TOPIC, b"%090d" % (number * COUNT + record), b"key")
                producer.poll(0)
            assert producer.flush(60) == 0
            producer.abort_transaction(30) if number == 1 else producer.commit_transaction(30)
        yield node
    finally:
        node.remove()


def source(leasing: LeasingProcess, lease: tuple[str, str] | None = None, **options: str) -> OdradekSource:
    given = {
        "kafka.bootstrap.servers": leasing.bootstrap,
        "kafka.isolation.level": "read_committed",
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "minPartitions": "4",
        "columns": "offset,value",
        **options,
    }
    if lease is not None:
        given |= {"leasePrincipal": lease[0], "leaseSecret": lease[1]}
    return OdradekSource(given)


def batch_reader(leasing: LeasingProcess, lease: tuple[str, str] | None = None) -> DataSourceReader:
    made = source(leasing, lease)
    return made.reader(made.schema())


def planned(reader: DataSourceReader) -> list[ReadTask]:
    tasks = [task for task in reader.partitions() if isinstance(task, ReadTask)]
    assert len(tasks) == 4
    return tasks


def rows(reader: DataSourceReader, tasks: list[ReadTask]) -> list[dict[str, Any]]:
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def test_tasks_read_files_and_fall_back(
    leasing: LeasingProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = batch_reader(leasing)
    expected = rows(brokers, planned(brokers))
    assert len(expected) == COUNT * 2 // 3

    reader = batch_reader(leasing, SPARK)
    tasks = planned(reader)
    (lease,) = leasing.leases()
    assert lease["segments"] >= 4
    assert all(task.held is not None for task in tasks)
    # Where a file begins nearby, a task does.
    assert {task.offsets.start for task in tasks[1:]} & {int(link.stem[-20:]) for link in leasing.links()}
    assert rows(reader, tasks) == expected
    assert "read from brokers" not in caplog.text

    # As on a machine that does not see the directory.
    for task in tasks[1:3]:
        assert task.held is not None
        elsewhere = tuple(one._replace(path=str(tmp_path / "nowhere")) for one in task.held.files)
        task.held = replace(task.held, files=elsewhere)
    assert rows(reader, tasks) == expected
    assert caplog.text.count("Reading leased-0 from brokers") == 2

    refused = batch_reader(leasing, OTHER)
    tasks = planned(refused)
    assert [task.held for task in tasks] == [None] * 4
    assert "User:other needs READ permission on topic 'leased'" in caplog.text
    assert rows(refused, tasks) == expected


def test_a_stream_releases_leases(leasing: LeasingProcess) -> None:
    # What the test before left ends by itself, later than this test.
    before, leases = set(leasing.links()), len(leasing.leases())
    made = source(leasing, SPARK)
    reader = made.streamReader(made.schema())
    assert isinstance(reader, StreamReader)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    tasks = [task for task in reader.partitions(start, end) if isinstance(task, ReadTask)]
    assert len(leasing.leases()) == leases + 1 and set(leasing.links()) > before
    found = [row["offset"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert len(found) == COUNT * 2 // 3
    reader.commit(end)
    until(lambda: set(leasing.links()) <= before, what="the end of the lease")
    assert len(leasing.leases()) == leases
    reader.stop()


def test_tasks_continue_without_their_broker(leasing: LeasingProcess) -> None:
    """Last, since it ends the broker."""
    brokers = batch_reader(leasing)
    expected = rows(brokers, planned(brokers))
    reader = batch_reader(leasing, SPARK)
    tasks = planned(reader)
    leasing.kill()

    closed = [task for task in tasks if task.held is not None and task.held.files[-1].limit >= task.offsets.end]
    assert len(closed) >= 3
    assert rows(reader, closed) == [row for row in expected if row["offset"] < closed[-1].offsets.end]
