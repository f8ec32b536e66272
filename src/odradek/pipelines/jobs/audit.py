"""`odradek job audit`: compares a topic with the table that `ingest` wrote.

Decodes the records again and joins them with the rows by offset in Spark, so that any size works. Read-only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import odradek
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs import dead_letters
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.columns import ORIGIN, columns_text, parse_columns
from odradek.pipelines.jobs.findings import OFFSETS_NAMED_MAX, Fault, Findings, PartitionFindings, fault_of
from odradek.pipelines.jobs.ingest_task import SOURCE_COLUMNS
from odradek.pipelines.jobs.row_hashes import row_hashes
from odradek.pipelines.jobs.rows import NewFields, RowDecoder
from odradek.pipelines.jobs.state import JobState, list_jobs
from odradek.pipelines.jobs.tables.table import NO_BATCH, TableFormat, open_table
from odradek.pipelines.jobs.topic_range import TopicRange, source_options
from odradek.pipelines.jobs.values import ValueKind, Values
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.pipelines.spark.version_check import check_version
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HASHED: Final = "partition int, offset bigint, hash bigint"
_HASHED_ARROW: Final = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("hash", pa.int64())])
# Origin columns that are compared in addition to the data.
_COMPARED: Final = ("_timestamp", "_key")
Tasks = Callable[[Iterator[Any]], Iterator[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAuditSettings:
    bootstrap: str
    topic: str
    table: Path
    name: str
    dead_letters: str | None = None


class TableAudit:
    """Checks everything that can be checked before Spark starts."""

    def __init__(self, cluster: Cluster, settings: TableAuditSettings) -> None:
        self._settings: Final = settings
        self._brokers: Final = broker_options(settings.bootstrap, cluster.security)
        state = JobState(settings.table, settings.name)
        if not state.exists:
            known = list_jobs(settings.table)
            advice = f"Choose one of {', '.join(known)} with --name." if known else "No job has written to this table."
            raise UserError(f"Table {str(settings.table)!r} has no job {settings.name!r}. {advice}")
        identity = state.identity()
        if identity["topic"] != settings.topic:
            raise UserError(f"Job {settings.name!r} reads topic {identity['topic']!r}, not {settings.topic!r}.")
        self._table: Final = open_table(TableFormat(identity["format"]), settings.table)
        self._columns: Final = state.columns() or pa.schema([])
        kind = ValueKind(identity.get("values", ValueKind.JSON))
        self._values: Final = Values(kind=kind, schemas=str(state.schemas.absolute()))
        self._range: Final = TopicRange(cluster, settings.topic, skip_lost=True)
        if settings.dead_letters is not None:
            TopicRange(cluster, settings.dead_letters, skip_lost=False).layout()
        self._set_range(state)

    def _set_range(self, state: JobState) -> None:
        """Set the range that the job has read: from its start to the end of the last committed batch."""
        done = self._table.last_batch(self._settings.name)
        began = state.first()
        if done == NO_BATCH or began is None:
            raise UserError(f"Job {self._settings.name!r} has not written anything yet. Run it first.")
        self._end = state.plan(done).end
        self._range.check_same(self._end)
        earliest = self._range.earliest([one for one, _ in self._end.partitions()])
        self._start = Positions()
        for one, _ in self._end.partitions():
            self._start.put(one, self._end[one.topic].id, max(began.find(one) or 0, earliest[one]))

    def run(self, spark: "SparkSession") -> Findings:
        from pyspark.sql import functions as F

        rows = self._rows(spark)
        grouped = rows.groupBy("partition", "offset").agg(
            F.count("*").alias("rows"),
            F.bit_xor("hash").alias("xor"),
            F.min("hash").alias("low"),
            F.max("hash").alias("high"),
        )
        joined = self._records(spark).join(grouped, ["partition", "offset"], "full_outer")
        joined = joined.join(self._letters(spark), ["partition", "offset"], "left")
        judged = joined.select(
            "partition",
            "offset",
            F.col("hash").isNotNull().alias("in_topic"),
            F.col("letter").isNotNull().alias("is_letter"),
            F.coalesce("rows", F.lit(0)).alias("rows"),
            F.coalesce((F.col("low") == F.col("hash")) & (F.col("high") == F.col("hash")), F.lit(False)).alias(
                "is_same"
            ),
            "hash",
            "xor",
        ).cache()
        try:
            return self._findings(judged, self._count_removed(spark))
        finally:
            judged.unpersist()

    def _findings(self, judged: "DataFrame", removed: int) -> Findings:
        from pyspark.sql import functions as F

        kinds = ("in_topic", "is_letter", "is_same")
        capped = F.least("rows", F.lit(2)).alias("capped")
        figures = (
            judged.groupBy("partition", *kinds, capped)
            .agg(
                F.count("*").alias("count"),
                F.sum("rows").alias("rows"),
                F.bit_xor("hash").alias("hash"),
                F.bit_xor("xor").alias("xor"),
            )
            .collect()
        )
        partitions = []
        for one, end in self._end.partitions():
            mine = [row for row in figures if row.partition == one.partition]
            faults: dict[Fault, int] = {}
            checksum = rows_checksum = 0
            for row in mine:
                fault = _fault(row)
                if fault is not None:
                    faults[fault] = faults.get(fault, 0) + row["count"]
                if row.in_topic and (row.capped or not row.is_letter):
                    checksum ^= row.hash
                rows_checksum ^= row.xor or 0
            partitions.append(
                PartitionFindings(
                    partition=one.partition,
                    start=self._start.find(one) or 0,
                    end=end,
                    records=sum(row["count"] for row in mine if row.in_topic),
                    rows=sum(row.rows for row in mine),
                    dead_letters=sum(row["count"] for row in mine if row.is_letter),
                    checksum=checksum,
                    rows_checksum=rows_checksum,
                    faults=faults,
                )
            )
        named: dict[TopicPartition, dict[Fault, list[int]]] = {}
        if any(one.faults for one in partitions):
            is_wrong = (
                ~F.col("in_topic")
                | (F.col("rows") > 1)
                | ((F.col("rows") == 1) & ~F.col("is_same"))
                | ((F.col("rows") == 0) & ~F.col("is_letter"))
            )
            wrong = judged.where(is_wrong).select("partition", "offset", *kinds, capped)
            for row in wrong.orderBy("partition", "offset").limit(OFFSETS_NAMED_MAX).collect():
                fault = _fault(row)
                assert fault is not None
                partition = TopicPartition(self._settings.topic, row.partition)
                named.setdefault(partition, {}).setdefault(fault, []).append(row.offset)
        return Findings(partitions=tuple(partitions), named=named, removed_rows=removed)

    def _count_removed(self, spark: "SparkSession") -> int:
        files = self._files(spark)
        if files is None or all(offset == 0 for _, offset in self._start.partitions()):
            return 0
        return files.where(self._within(before=True)).count()

    # ---- both sides, as partition, offset and hash

    def _records(self, spark: "SparkSession") -> "DataFrame":
        options = source_options(self._brokers, self._start, self._end)
        columns, version = columns_text(self._columns), odradek.__version__
        records = spark.read.format("odradek").options(**options, columns=",".join(SOURCE_COLUMNS)).load()
        return records.mapInArrow(_hash_records(columns, self._values, version), _HASHED)

    def _rows(self, spark: "SparkSession") -> "DataFrame":
        files = self._files(spark)
        if files is None:
            return spark.createDataFrame([], _HASHED)
        names = tuple(self._columns.names)
        wanted = ["_partition", "_offset", *_COMPARED, *names]
        within = files.where(self._within(before=False)).select(*(f"`{name}`" for name in wanted))
        return within.mapInArrow(_hash_rows((*_COMPARED, *names), odradek.__version__), _HASHED)

    def _files(self, spark: "SparkSession") -> "DataFrame | None":
        paths = self._table.files()
        if not paths:
            return None
        schema = columns_text(pa.schema([*ORIGIN, *self._columns]))
        return spark.read.schema(schema).parquet(*paths).where(f"_topic = '{self._settings.topic}'")

    def _within(self, *, before: bool) -> str:
        """SQL for the offsets that the job has read: those still in the topic, or those deleted `before`."""
        parts = []
        for one, end in self._end.partitions():
            start = self._start.find(one) or 0
            offsets = f"_offset < {start}" if before else f"_offset >= {start} AND _offset < {end}"
            parts.append(f"(_partition = {one.partition} AND {offsets})")
        return " OR ".join(parts)

    def _letters(self, spark: "SparkSession") -> "DataFrame":
        if self._settings.dead_letters is None:
            return spark.createDataFrame([], "partition int, offset bigint, letter boolean")
        letters = (
            spark.read.format("odradek")
            .options(**self._brokers)
            .option("kafka.isolation.level", "read_committed")
            .options(subscribe=self._settings.dead_letters, columns="headers")
            .load()
        )

        def header(name: str) -> str:
            return f"cast(filter(headers, one -> one.key = '{name}')[0].value AS string)"

        return (
            letters.where(f"{header(dead_letters.TOPIC)} = '{self._settings.topic}'")
            .selectExpr(
                f"cast({header(dead_letters.PARTITION)} AS int) AS partition",
                f"cast({header(dead_letters.OFFSET)} AS bigint) AS offset",
                "true AS letter",
            )
            .distinct()
        )


def _fault(row: Any) -> Fault | None:
    return fault_of(in_topic=row.in_topic, is_letter=row.is_letter, rows=row.capped, is_same=row.is_same)


def _hash_records(columns: str, values: Values, version: str) -> Tasks:
    """Records that cannot be decoded have the hash 0; they must be dead letters."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        check_version(version)
        read = values.reader()
        decoder = RowDecoder(parse_columns(columns) if columns else pa.schema([]), NewFields.IGNORE, read)
        for batch in batches:
            decoded = decoder.decode(batch.column("value").to_pylist())
            good = batch.select(["timestamp", "key"]).take(pa.array(decoded.good, pa.int64()))
            hashes = [0] * batch.num_rows
            for index, found in zip(decoded.good, row_hashes([*good.columns, *decoded.arrays]), strict=True):
                hashes[index] = found
            yield _hash_batch(batch.column("partition"), batch.column("offset"), hashes)

    return task


def _hash_rows(names: tuple[str, ...], version: str) -> Tasks:
    def task(batches: Iterator[Any]) -> Iterator[Any]:
        check_version(version)
        for batch in batches:
            hashes = row_hashes([batch.column(name) for name in names])
            yield _hash_batch(batch.column("_partition"), batch.column("_offset"), hashes)

    return task


def _hash_batch(partitions: Any, offsets: Any, hashes: list[int]) -> Any:
    arrays = [partitions.cast(pa.int32()), offsets.cast(pa.int64()), pa.array(hashes, pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, schema=_HASHED_ARROW)
