"""`odradek job audit --against`: compares the records of two topics by key and value.

Offsets and partitions may differ, but each record must occur equally often in both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import odradek
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.findings import checksum_text
from odradek.pipelines.jobs.row_hashes import row_hashes
from odradek.pipelines.jobs.topic_range import TopicRange, limit_batch, source_options
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.pipelines.spark.version_check import check_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_NAMED_MAX: Final = 1000
HASHED_COLUMNS: Final = "partition int, offset bigint, hash bigint"
_HASHED_ARROW: Final = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("hash", pa.int64())])
_NO_LIMIT: Final = 2**62


@dataclass(frozen=True, slots=True)
class TopicSide:
    topic: str
    records: int
    checksums: dict[int, tuple[int, int]]
    """By partition: the number of records and their checksum."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that does not occur equally often in both topics, with its first positions."""

    copies: int
    found_copies: int
    first: tuple[int, int] | None
    found_first: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFindings:
    left: TopicSide
    right: TopicSide
    missing: int
    double: int
    named: tuple[Difference, ...]

    @property
    def is_exact(self) -> bool:
        return not self.missing and not self.double

    def sentences(self) -> Iterator[str]:
        for one in self.named:
            where = (
                f"{self.left.topic}-{one.first[0]} offset {one.first[1]}"
                if one.first is not None
                else f"the record at {self.right.topic}-{one.found_first[0]} offset {one.found_first[1]}"
                if one.found_first is not None
                else ""
            )
            yield f"{where}: {one.copies} in {self.left.topic}, {one.found_copies} in {self.right.topic}"
        if len(self.named) == RECORDS_NAMED_MAX:
            yield "There are more differences."

    def to_json(self) -> dict[str, Any]:
        return {
            "exact": self.is_exact,
            "missing": self.missing,
            "double": self.double,
            "topics": [
                {
                    "topic": side.topic,
                    "records": side.records,
                    "partitions": [
                        {"partition": number, "records": count, "checksum": checksum_text(checksum)}
                        for number, (count, checksum) in sorted(side.checksums.items())
                    ],
                }
                for side in (self.left, self.right)
            ],
            "differences": [
                {"copies": one.copies, "found": one.found_copies, "at": one.first, "found_at": one.found_first}
                for one in self.named
            ],
        }


class TopicAudit:
    def __init__(self, cluster: Cluster, bootstrap: str, left: str, right: str, start: str, end: str | None) -> None:
        self._brokers: Final = broker_options(bootstrap, cluster.security)
        self._left: Final = left
        self._right: Final = right
        self._left_range: Final = _bounds(TopicRange(cluster, left, skip_lost=True), start, end)
        self._right_range: Final = _bounds(TopicRange(cluster, right, skip_lost=True), "beginning", None)

    def run(self, spark: "SparkSession") -> TopicFindings:
        left = self._side(spark, self._left_range).cache()
        right = self._side(spark, self._right_range).cache()
        try:
            return compare_topics((self._left, left), (self._right, right))
        finally:
            left.unpersist()
            right.unpersist()

    def _side(self, spark: "SparkSession", bounds: tuple[Positions, Positions | None]) -> "DataFrame":
        start, end = bounds
        if end is None:
            return spark.createDataFrame([], HASHED_COLUMNS)
        options = source_options(self._brokers, start, end)
        records = spark.read.format("odradek").options(**options, columns="key,value,partition,offset").load()
        return records.mapInArrow(_hash_task(odradek.__version__), HASHED_COLUMNS)


def compare_topics(left: "tuple[str, DataFrame]", right: "tuple[str, DataFrame]") -> TopicFindings:
    """Compare two topics, given by name and rows of partition, offset and hash. The rows are read several times."""
    from pyspark.sql import functions as F

    def count_copies(rows: "DataFrame", prefix: str) -> "DataFrame":
        return rows.groupBy("hash").agg(
            F.count("*").alias(f"{prefix}copies"),
            F.min(F.struct("partition", "offset")).alias(f"{prefix}first"),
        )

    both = count_copies(left[1], "").join(count_copies(right[1], "found_"), "hash", "full_outer").na.fill(0)
    wrong = both.where("copies != found_copies")
    missing, double = wrong.selectExpr(
        "coalesce(sum(greatest(copies - found_copies, 0)), 0)",
        "coalesce(sum(greatest(found_copies - copies, 0)), 0)",
    ).collect()[0]
    named = (
        wrong.orderBy(F.col("first").asc_nulls_last(), "found_first").limit(RECORDS_NAMED_MAX).collect()
        if missing or double
        else []
    )
    return TopicFindings(
        left=_figures(*left),
        right=_figures(*right),
        missing=missing,
        double=double,
        named=tuple(
            Difference(row.copies, row.found_copies, _place(row["first"]), _place(row.found_first)) for row in named
        ),
    )


def _bounds(topic: TopicRange, start: str, end: str | None) -> tuple[Positions, Positions | None]:
    first = topic.first(start)
    return first, limit_batch(first, topic.last(end), _NO_LIMIT)


def _figures(topic: str, rows: "DataFrame") -> TopicSide:
    from pyspark.sql import functions as F

    found = rows.groupBy("partition").agg(F.count("*").alias("records"), F.bit_xor("hash").alias("checksum")).collect()
    checksums = {row.partition: (row.records, row.checksum) for row in found}
    return TopicSide(topic, sum(records for records, _ in checksums.values()), checksums)


def _place(found: Any) -> tuple[int, int] | None:
    return None if found is None else (found.partition, found.offset)


def _hash_task(version: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def task(batches: Iterator[Any]) -> Iterator[Any]:
        check_version(version)
        for batch in batches:
            hashes = row_hashes([batch.column("key"), batch.column("value")])
            arrays = [batch.column("partition"), batch.column("offset"), pa.array(hashes, pa.int64())]
            yield pa.RecordBatch.from_arrays(arrays, schema=_HASHED_ARROW)

    return task
