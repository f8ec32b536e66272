"""`odradek job audit --rewritten`: checks that a rewrite's target is complete and in order.

Applies the job's rules to the source again and compares key, value, headers and partition, and the number of
occurrences. Records with the same key from the same source partition must have the same order in the target.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import odradek
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.audit_topics import HASHED_COLUMNS, TopicFindings, compare_topics
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.rewrite.history import RewriteHistory
from odradek.pipelines.jobs.rewrite.rows import RewrittenRows
from odradek.pipelines.jobs.rewrite.rules import Rules
from odradek.pipelines.jobs.rewrite.task import COUNT
from odradek.pipelines.jobs.row_hashes import row_hashes
from odradek.pipelines.jobs.state import JobState
from odradek.pipelines.jobs.topic_range import TopicRange, limit_batch, source_options
from odradek.pipelines.spark.version_check import check_version
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAIRS_NAMED_MAX: Final = 1000
_NO_LIMIT: Final = 2**62
_HASHED: Final = f"{HASHED_COLUMNS}, key_hash bigint"
_HASHED_ARROW: Final = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("hash", pa.int64()), ("key_hash", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Disorder:
    """Two consecutive records with the same key in a source partition that are in another order in the target."""

    source_partition: int
    source_offset: int
    """Of the later record."""
    target_partition: int
    target_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteFindings:
    records: TopicFindings
    """The left side is the expected target."""
    disordered: int
    disorders: tuple[Disorder, ...]
    removed_offsets: int
    """Offsets of the source that retention has deleted, so that they cannot be compared."""

    @property
    def is_exact(self) -> bool:
        surplus = 0 if self.removed_offsets else self.records.double
        return not self.records.missing and not surplus and not self.disordered

    def sentences(self) -> Iterator[str]:
        yield from self.records.sentences()
        left, right = self.records.left.topic, self.records.right.topic
        for one in self.disorders:
            yield (
                f"{right}-{one.target_partition} offset {one.target_offset}, from {left}-{one.source_partition} offset "
                f"{one.source_offset}, precedes a record with the same key that was earlier in the source"
            )
        if len(self.disorders) == PAIRS_NAMED_MAX:
            yield "There are more records out of order."

    def to_json(self) -> dict[str, Any]:
        return {
            **self.records.to_json(),
            "exact": self.is_exact,
            "disordered": self.disordered,
            "disorders": [
                {
                    "source": [one.source_partition, one.source_offset],
                    "target": [one.target_partition, one.target_offset],
                }
                for one in self.disorders
            ],
            "removed_offsets": self.removed_offsets,
        }


class RewriteAudit:
    """Checks everything that can be checked before Spark starts."""

    def __init__(
        self,
        cluster: Cluster,
        bootstrap: str,
        source: str,
        target: str,
        state: JobState,
        name: str,
        erased: ErasedKeys | None,
    ) -> None:
        known = state.identity() if state.exists else {}
        if (known.get("job"), known.get("topic"), known.get("target")) != ("rewrite", source, target):
            raise UserError(
                f"{str(state.directory)!r} has no job {name!r} that rewrites {source!r} to {target!r}. Check --state "
                "and "
                "--name."
            )
        self._brokers: Final = broker_options(bootstrap, cluster.security)
        self._source: Final = source
        self._target: Final = target
        rules = Rules.from_identity(known, erased)
        history = RewriteHistory(cluster, state, name)
        self._rows: Final = RewrittenRows(cluster, bootstrap, source, rules, history.target.partitions, skip_lost=True)
        read = TopicRange(cluster, source, skip_lost=True)
        first, reached = state.first(), history.find_progress()[0]
        assert first is not None
        self._start: Final = read.next(first)
        began = dict(first.partitions())
        self._removed: Final = sum(
            min(offset, reached.find(one) or 0) - began[one]
            for one, offset in self._start.partitions()
            if offset > began.get(one, offset)
        )
        self._end: Final = limit_batch(self._start, dict(reached.partitions()), _NO_LIMIT)
        written = TopicRange(cluster, target, skip_lost=True)
        self._target_start: Final = written.first("beginning")
        ends = history.ends() or written.latest(written.partitions())
        self._target_end: Final = limit_batch(self._target_start, ends, _NO_LIMIT)

    def run(self, spark: "SparkSession") -> RewriteFindings:
        expected, found = self._expected_records(spark).cache(), self._found_records(spark).cache()
        try:
            records = compare_topics((self._source, expected), (self._target, found))
            count, disorders = _disorder(expected, found)
        finally:
            expected.unpersist()
            found.unpersist()
        return RewriteFindings(records=records, disordered=count, disorders=disorders, removed_offsets=self._removed)

    def _expected_records(self, spark: "SparkSession") -> "DataFrame":
        """Return the expected records, with the source's partition and offset."""
        if self._end is None:
            return spark.createDataFrame([], _HASHED)
        made = self._rows.rewrite(self._rows.records(spark, self._start, self._end)).where(f"partition != {COUNT}")
        task = _hash_task(odradek.__version__, "source_partition", "source_offset")
        return made.mapInArrow(task, _HASHED)

    def _found_records(self, spark: "SparkSession") -> "DataFrame":
        if self._target_end is None:
            return spark.createDataFrame([], _HASHED)
        options = source_options(self._brokers, self._target_start, self._target_end)
        columns = "key,value,headers,partition,offset"
        records = spark.read.format("odradek").options(**options, columns=columns, failOnDataLoss="false").load()
        return records.mapInArrow(_hash_task(odradek.__version__, "partition", "offset"), _HASHED)


def _hash_task(version: str, partition: str, offset: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The hash includes the target partition, because the key determines it."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        check_version(version)
        for batch in batches:
            hashes = row_hashes([batch.column(name) for name in ("key", "value", "headers", "partition")])
            keys = row_hashes([batch.column("key")])
            arrays = [batch.column(partition), batch.column(offset), pa.array(hashes, pa.int64()), pa.array(keys)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_HASHED_ARROW)

    return task


def _disorder(expected: "DataFrame", found: "DataFrame") -> tuple[int, tuple[Disorder, ...]]:
    """Only compare records that occur once, because equal records are indistinguishable."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    def single(rows: "DataFrame", *names: str) -> "DataFrame":
        firsts = [F.first(name).alias(f"{alias}") for name, alias in zip(rows.columns, names, strict=True)]
        counted = rows.groupBy(F.col("hash").alias("one")).agg(F.count("*").alias("copies"), *firsts)
        return counted.where("copies = 1").drop("copies")

    both = single(expected, "source", "source_offset", "h1", "key_hash").join(
        single(found, "target", "target_offset", "h2", "k2"), "one"
    )
    origin = Window.partitionBy("key_hash", "source").orderBy("source_offset")
    wrong = both.withColumn("before", F.lag("target_offset").over(origin)).where("target_offset < before").cache()
    try:
        count = wrong.count()
        named = wrong.orderBy("source", "source_offset").limit(PAIRS_NAMED_MAX).collect() if count else []
    finally:
        wrong.unpersist()
    return count, tuple(Disorder(row.source, row.source_offset, row.target, row.target_offset) for row in named)
