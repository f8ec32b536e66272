"""A topic to be copied into another by Spark, exactly once, on a broker of its own; and whether it was."""

from collections import Counter
from pathlib import Path
from typing import Self

from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumer
from odradek.client.produce import Producer
from odradek.records.record import Record
from tests.odradek_process import OdradekProcess

SOURCE, TARGET = "source", "target"
PARTITIONS = 2
# What is prepared must wait for the next driver, however long it stays away.
PROPERTIES = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.max.timeout.ms": "10000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class AuditedTopics:
    def __init__(self, directory: Path) -> None:
        self.broker = OdradekProcess(directory / "node", properties=PROPERTIES)
        self.rows = 0

    def __enter__(self) -> Self:
        self.broker.start()
        with self.cluster() as cluster:
            for topic in (SOURCE, TARGET):
                Admin(cluster).create_topic(topic, partitions=PARTITIONS, replication_factor=1)
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.remove()

    def cluster(self) -> Cluster:
        return Cluster(parse_bootstrap(self.broker.bootstrap), timeout_s=60)

    def add(self, rows: int) -> None:
        with self.cluster() as cluster:
            producer = Producer(cluster)
            for number in range(self.rows, self.rows + rows):
                producer.add(SOURCE, Record(None, row(number)), number % PARTITIONS)
            producer.flush()
        self.rows += rows

    def visible(self, *, is_over: bool = False) -> Counter[bytes]:
        """What a reader of committed records finds."""
        partitions = [TopicPartition(TARGET, number) for number in range(PARTITIONS)]
        with self.cluster() as cluster:
            admin = Admin(cluster)
            ends = admin.offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
            if is_over:
                assert ends == admin.offsets(dict.fromkeys(partitions, LATEST)), "a transaction is still open"
            consumer = Consumer(cluster, admin.offsets(dict.fromkeys(partitions, EARLIEST)), read_committed=True)
            found: Counter[bytes] = Counter()
            while any(consumer.positions[one] < ends[one] for one in partitions):
                found.update(consumed.record.value or b"" for consumed in consumer.poll(wait_ms=1000))
            return found

    def check(self) -> None:
        found = self.visible(is_over=True)
        missing = [number for number in range(self.rows) if row(number) not in found]
        double = [value for value, times in found.items() if times > 1]
        assert not missing and not double, f"missing: {missing[:9]}, double: {double[:9]}"
        assert found.total() == self.rows


def row(number: int) -> bytes:
    """As a job that fills a table wants it."""
    return b'{"number": %d}' % number
