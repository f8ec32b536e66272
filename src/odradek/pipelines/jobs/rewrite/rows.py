"""Creates DataFrames of source records and of rewritten records."""

from typing import TYPE_CHECKING, Final

import odradek
from odradek.base.ids import TopicPartition
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.rewrite.rules import Rules
from odradek.pipelines.jobs.rewrite.task import IS_DOUBLE, NEW_KEY, REWRITTEN, RewriteTask
from odradek.pipelines.jobs.topic_range import source_options
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition", "offset")
_RECORD: Final = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, timestamp timestamp, partition int, "
    "offset bigint"
)
_TEXT: Final = ("key", "value")
_RAW: Final = {"key": "_raw_key", "value": "_raw_value"}


class RewrittenRows:
    def __init__(
        self, cluster: Cluster, bootstrap: str, topic: str, rules: Rules, partition_count: int, *, skip_lost: bool
    ) -> None:
        self._admin: Final = Admin(cluster)
        self._brokers: Final = broker_options(bootstrap, cluster.security)
        self._topic: Final = topic
        self._rules: Final = rules
        self._partition_count: Final = partition_count
        self._skip_lost: Final = skip_lost

    def records(self, spark: "SparkSession", start: Positions, end: Positions) -> "DataFrame":
        """Return the records from start to end, with `_is_double` for deduplication."""
        from pyspark.sql import functions as F

        if self._rules.window_ms is None:
            return self._read(spark, start, end)
        before = self._window_start(spark, start, end)
        marked = self._mark_duplicates(self._read(spark, before, end))
        if before == start:
            return marked
        # Records before `start` belong to earlier batches.
        firsts = F.create_map(*(F.lit(part) for one, offset in start.partitions() for part in (one.partition, offset)))
        return marked.where(F.col("offset") >= firsts[F.col("partition")])

    def rewrite(self, records: "DataFrame") -> "DataFrame":
        """Apply the rules. Returns unordered records with partition and origin, and one count row per task."""
        from pyspark.sql import functions as F

        rules = self._rules
        if rules.key is not None:
            records = _with_column(records, NEW_KEY, rules.key)
        elif rules.key_field is not None:
            field = F.get_json_object(F.col("value").cast("string"), f"$.{rules.key_field}")
            records = records.withColumn(NEW_KEY, field.cast("binary"))
        task = RewriteTask(
            topic=self._topic,
            erased=rules.erased,
            changes_keys=rules.changes_keys,
            keyless=rules.keyless,
            partition_count=self._partition_count,
            version=odradek.__version__,
        )
        return records.mapInArrow(lambda batches: task(batches), REWRITTEN)

    def _read(self, spark: "SparkSession", start: Positions, end: Positions, *names: str) -> "DataFrame":
        return (
            spark.read.format("odradek")
            .options(**source_options(self._brokers, start, end))
            .options(columns=",".join(names or _COLUMNS), failOnDataLoss=str(not self._skip_lost).lower())
            .load()
        )

    def _mark_duplicates(self, records: "DataFrame") -> "DataFrame":
        """Mark a record if the previous equal record is within the window. The result does not depend on batches."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        rules = self._rules
        same = ["key", "value"]
        if rules.same_by is not None:
            records, same = _with_column(records, "_same", rules.same_by), ["_same"]
        window = Window.partitionBy("partition", *same).orderBy("offset")
        time_ms = F.unix_millis("timestamp")
        apart = F.abs(time_ms - F.lag(time_ms).over(window))
        marked = records.withColumn(IS_DOUBLE, F.coalesce(apart <= F.lit(rules.window_ms), F.lit(False)))
        return marked.select(*_COLUMNS, IS_DOUBLE)

    def _window_start(self, spark: "SparkSession", start: Positions, end: Positions) -> Positions:
        """Return the offsets of the first records that may be in the window of those after `start`."""
        from pyspark.sql import functions as F

        window_ms = self._rules.window_ms
        assert window_ms is not None
        earliest = (
            self._read(spark, start, end, "timestamp", "partition")
            .groupBy("partition")
            .agg(F.unix_millis(F.min("timestamp")).alias("time_ms"))
            .collect()
        )
        # Negative timestamps have a special meaning in ListOffsets.
        timestamps = {TopicPartition(self._topic, row.partition): max(row.time_ms - window_ms, 0) for row in earliest}
        found = self._admin.offsets(timestamps) if timestamps else {}
        before = Positions()
        for one, offset in start.partitions():
            earlier = found.get(one, -1)
            before.put(one, start[one.topic].id, min(earlier, offset) if earlier >= 0 else offset)
        return before


def _with_column(records: "DataFrame", name: str, text: str) -> "DataFrame":
    """Add the result of a SQL expression as bytes. The expression sees key and value as text."""
    from pyspark.sql import functions as F

    others = [one for one in records.columns if one not in _TEXT]
    seen = records.select(
        *others,
        *(F.col(one).alias(_RAW[one]) for one in _TEXT),
        *(F.col(one).cast("string").alias(one) for one in _TEXT),
    )
    made = seen.select(*others, *_RAW.values(), F.expr(text).alias(name))
    kind = made.schema[name].dataType.typeName()
    column = F.col(name)
    if kind in ("struct", "array", "map"):
        column = F.to_json(column)
    elif kind not in ("binary", "string"):
        column = column.cast("string")
    return made.select(*others, *(F.col(_RAW[one]).alias(one) for one in _TEXT), column.cast("binary").alias(name))


def check_sql(spark: "SparkSession", rules: Rules) -> None:
    """Raises UserError for invalid SQL."""
    from pyspark.errors import AnalysisException, ParseException

    nothing = spark.createDataFrame([], _RECORD)
    for option, text in (("--key", rules.key), ("--same-by", rules.same_by)):
        if text is None:
            continue
        try:
            _with_column(nothing, NEW_KEY, text)
        except (AnalysisException, ParseException) as error:
            reason = " ".join(str(error).split("SQLSTATE")[0].split())
            raise UserError(
                f"{option} {text!r} is not a valid SQL expression over {', '.join(_COLUMNS)}: {reason.rstrip('. ')}."
            ) from None
