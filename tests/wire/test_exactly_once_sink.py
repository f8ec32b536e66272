"""Spark's exactly-once sink on a real broker, without Spark: drivers crash before and after each request."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.admin import EARLIEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumer
from odradek.client.produce import Producer
from odradek.client.producer_transactions import TransactionHandle, transaction_terms
from odradek.client.transactions import Transactions
from odradek.pipelines.spark.exactly_once import driver
from odradek.pipelines.spark.exactly_once.requests import BatchLost, Fenced, NotDecided, Request, Superseded
from odradek.pipelines.spark.exactly_once.task import write_batch
from odradek.pipelines.spark.sink.brokers import Brokers, drive
from odradek.pipelines.spark.sink.decision_log import DecisionLog
from odradek.records.record import Record
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess

TASKS = 2
PARTITIONS = 2
ROWS = 3
QUERY = "query-1"
Around = Callable[[Callable[[Request], Any], Request], Any]


class Died(Exception):
    pass


class Query:
    """Does what Spark does around the sink, with a driver that may crash at any request."""

    def __init__(self, broker: NodeProcess, topic: str) -> None:
        self.cluster = Cluster(parse_bootstrap(broker.bootstrap), timeout_s=90)
        self.topic = self.sink = topic
        Admin(self.cluster).create_topic(topic, partitions=PARTITIONS, replication_factor=1)
        self.log = DecisionLog(self.cluster, "odradek-decisions", topic)
        self.log.ensure()
        self.terms = transaction_terms(self.cluster)
        self.attempts = 0
        self.around: Around = lambda handle, request: handle(request)

    def drive(self, steps: Any, rows: list[bytes] | None = None) -> Any:
        def write_rows(member: TransactionHandle) -> None:
            producer = Producer(self.cluster, transaction=member)
            for number, row in enumerate(rows or []):
                producer.add(self.topic, Record(None, row), number % PARTITIONS)
            producer.flush()

        handle = Brokers(self.cluster, self.sink, self.terms, self.log, write_rows=write_rows).handle
        return drive(steps, lambda request: self.around(handle, request))

    def begin(self) -> driver.Generation:
        return self.drive(driver.begin(self.sink, reuse_ids=self.terms.epochs_rise))

    def write(self, generation: driver.Generation, batch: int) -> list[driver.Report]:
        reports = []
        for task in range(TASKS):
            self.attempts += 1
            steps = write_batch(generation, batch, QUERY, self.attempts, has_rows=True)
            reports.append(self.drive(steps, [b"%d-%d-%d" % (batch, task, row) for row in range(ROWS)]))
        return reports

    def commit(self, generation: driver.Generation, batch: int, reports: list[driver.Report]) -> None:
        self.drive(driver.commit(generation, batch, reports, reuse_ids=self.terms.epochs_rise))

    def run(self, batch: int) -> None:
        generation = self.begin()
        self.commit(generation, batch, self.write(generation, batch))

    def committed(self) -> list[bytes]:
        partitions = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        ends = Admin(self.cluster).offsets(dict.fromkeys(partitions, -1))
        consumer = Consumer(
            self.cluster, Admin(self.cluster).offsets(dict.fromkeys(partitions, EARLIEST)), read_committed=True
        )
        found: list[bytes] = []
        while any(consumer.positions[one] < ends[one] for one in partitions):
            before = dict(consumer.positions)
            found += [consumed.record.value or b"" for consumed in consumer.poll(wait_ms=20_000)]
            assert consumer.positions != before, "a transaction is still open"
        return sorted(found)

    def expected(self, batches: int) -> list[bytes]:
        return sorted(b"%d-%d-%d" % (b, t, r) for b in range(batches) for t in range(TASKS) for r in range(ROWS))

    def names(self) -> list[str]:
        return [one.transactional_id for one in Transactions(self.cluster).listings(pattern=f"{self.sink}[.]task.*")]


@pytest.fixture(params=[True, False], ids=["epochs-rise", "older-requests"])
def query(request: pytest.FixtureRequest, broker: NodeProcess, topic: str) -> Iterator[Query]:
    """Also uses the requests of clients that do not support transaction.version 2."""
    made = Query(broker, topic)
    made.terms = replace(made.terms, epochs_rise=request.param)
    with made.cluster:
        yield made


def test_consecutive_batches_reuse_the_transactional_ids(query: Query) -> None:
    for batch in range(4):
        query.run(batch)

    assert query.committed() == query.expected(4)
    assert len(query.names()) == (TASKS if query.terms.epochs_rise else TASKS * 4)


def test_driver_crash_at_any_request_writes_each_row_once(query: Query) -> None:
    """The driver crashes before the request is sent, or after it was executed."""
    batch = died = 0
    for number in range(200):
        left = number // 2

        def dies(handle: Callable[[Request], Any], request: Request, *, executes: bool = bool(number % 2)) -> Any:
            nonlocal left
            left -= 1
            if left >= 0:
                return handle(request)
            if executes:
                handle(request)
            raise Died

        query.around = dies
        try:
            query.run(batch)
        except Died:
            died += 1
            query.around = lambda handle, request: handle(request)
            # Spark repeats a batch that is not in its own log.
            query.run(batch)
        batch += 1
        if left > 0:
            break
    else:
        raise AssertionError("no batch was completed without a crash")

    assert died > 30
    assert query.committed() == query.expected(batch)


def test_replaced_driver_is_fenced(query: Query) -> None:
    old = query.begin()
    written = query.write(old, 0)
    new = query.begin()

    with pytest.raises((Fenced, Superseded)):
        query.commit(old, 0, written)
    with pytest.raises(Superseded):
        query.write(old, 0)
    query.drive(driver.abort(old, 0, written))
    query.commit(new, 0, query.write(new, 0))
    assert query.committed() == query.expected(1)


def test_aborted_transaction_of_a_decided_batch_stops_the_sink(query: Query) -> None:
    """As after a timeout: the coordinator has aborted the transaction."""
    generation = query.begin()
    reports = query.write(generation, 0)
    lost = reports[1].prepared
    assert lost is not None

    def times_out(handle: Callable[[Request], Any], request: Request) -> Any:
        result = handle(request)
        if type(request).__name__ == "WriteState":
            Transactions(query.cluster).fence(lost.transactional_id)
        return result

    query.around = times_out
    with pytest.raises(BatchLost, match="Batch 0 was decided, but its transaction"):
        query.commit(generation, 0, reports)
    query.around = lambda handle, request: handle(request)
    with pytest.raises(BatchLost, match="Batch 0"):
        query.begin()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[OdradekProcess]:
    """A node with two-phase commit; transactions without it time out soon."""
    properties = {
        "transaction.two.phase.commit.enable": "true",
        "transaction.max.timeout.ms": "3000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    node = OdradekProcess(tmp_path, properties=properties)
    try:
        yield node.start()
    finally:
        node.remove()


def test_prepared_transactions_outlive_their_timeout_only_in_two_phase_commit(impatient: OdradekProcess) -> None:
    query = Query(impatient, "target")
    with query.cluster:
        first = query.begin()
        reports = query.write(first, 0)
        time.sleep(4.0)
        query.commit(first, 0, reports)
        assert query.committed() == query.expected(1)

        query.sink = "another"
        query.log = DecisionLog(query.cluster, "odradek-decisions", query.sink)
        query.terms = replace(query.terms, in_two_phases=False)
        second = query.begin()
        reports = query.write(second, 1)
        while Transactions(query.cluster).listings(states=["Ongoing"]):
            time.sleep(0.1)
        with pytest.raises(NotDecided, match=r"of batch 1 timed out before the batch was decided"):
            query.commit(second, 1, reports)
        query.drive(driver.abort(second, 1, reports))
        query.terms = replace(query.terms, in_two_phases=True)
        query.run(1)
        assert query.committed() == query.expected(2)
