"""The DataFrame operations that a rewrite without SQL needs from Spark, implemented with Arrow in one process.

Reading, tasks and the exactly-once sink are the real ones; `tests/spark` tests them in Spark itself.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odradek.client.address import parse_bootstrap
from odradek.client.cluster import Cluster
from odradek.client.producer_transactions import TransactionHandle, transaction_terms
from odradek.pipelines.jobs.exactly_once_write import SinkBatch
from odradek.pipelines.jobs.rewrite.task import COUNT
from odradek.pipelines.spark.exactly_once import driver
from odradek.pipelines.spark.exactly_once.task import write_batch
from odradek.pipelines.spark.options import ClientOptions
from odradek.pipelines.spark.sink.brokers import Brokers, drive
from odradek.pipelines.spark.sink.decision_log import DecisionLog
from odradek.pipelines.spark.source import OdradekSource
from odradek.pipelines.spark.writer import TopicRows

_attempts = count()


class ArrowReader:
    """Stands in for the Spark session and its `read`."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {}

    @property
    def read(self) -> "ArrowReader":
        return ArrowReader()

    def format(self, name: str) -> "ArrowReader":
        return self

    def options(self, **given: str) -> "ArrowReader":
        self._options |= given
        return self

    def load(self) -> "ArrowFrame":
        source = OdradekSource(self._options)
        reader = source.reader(source.schema())
        return ArrowFrame([pa.Table.from_batches(reader.read(one)) for one in reader.partitions()])

    def createDataFrame(self, rows: list[Any], schema: str) -> "ArrowFrame":
        return ArrowFrame([])


class ArrowFrame:
    def __init__(self, tasks: list[Any]) -> None:
        self.tasks = tasks

    def mapInArrow(self, task: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> "ArrowFrame":
        return ArrowFrame([pa.Table.from_batches(task(iter(one.to_batches()))) for one in self.tasks])

    def persist(self, level: object) -> "ArrowFrame":
        return self

    def unpersist(self) -> None:
        pass

    def where(self, condition: str) -> "ArrowFrame":
        assert condition == f"partition != {COUNT}"
        return ArrowFrame([one.filter(pc.field("partition") != COUNT) for one in self.tasks])

    def repartition(self, tasks: int, column: str) -> "ArrowFrame":
        whole = pa.concat_tables(self.tasks)
        chosen = [number % tasks for number in whole[column].to_pylist()]
        return ArrowFrame([whole.filter(pc.equal(pa.array(chosen), number)) for number in range(tasks)])

    def sortWithinPartitions(self, *names: str) -> "ArrowFrame":
        return ArrowFrame([one.sort_by([(name, "ascending") for name in names]) for one in self.tasks])

    def select(self, *names: str) -> "ArrowFrame":
        return ArrowFrame([one.select(names) for one in self.tasks])

    def selectExpr(self, *expressions: str) -> "ArrowFrame":
        """The number of records read, and the number to be written."""
        rows = [row for one in self.tasks for row in one.to_pylist()]
        read = sum(row["source_offset"] for row in rows if row["partition"] == COUNT)
        return ArrowFrame([(read, sum(row["partition"] != COUNT for row in rows))])

    def collect(self) -> list[Any]:
        return self.tasks


def write_frame_once(rows: ArrowFrame, options: Mapping[str, str], batch: SinkBatch) -> None:
    """Does what `odradek.pipelines.jobs.exactly_once_write.write_once` does, one task after the other."""
    bootstrap = options["kafka.bootstrap.servers"]
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        log, terms = DecisionLog(cluster, "odradek-decisions", batch.sink), transaction_terms(cluster)
        log.ensure()
        sent = TopicRows(ClientOptions(bootstrap_servers=bootstrap), options["topic"], "none")

        def run(steps: Any, task: Any | None = None) -> Any:
            def write_rows(member: TransactionHandle) -> None:
                assert task is not None
                sent.send(cluster, task.to_batches(), member)

            return drive(steps, Brokers(cluster, batch.sink, terms, log, write_rows=write_rows).handle)

        generation = run(driver.begin(batch.sink, reuse_ids=terms.epochs_rise))
        reports = [
            run(write_batch(generation, batch.batch, batch.job_id, next(_attempts), has_rows=one.num_rows > 0), one)
            for one in rows.tasks
        ]
        run(driver.commit(generation, batch.batch, reports, reuse_ids=terms.epochs_rise))
