"""`odradek job load`: writes Parquet, Delta or JSON files to a topic exactly once.

The files are split into batches, which the exactly-once sink writes. The sink knows the finished batches, so that the
same command resumes after them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.exactly_once_write import SinkBatch, write_once
from odradek.pipelines.jobs.load_plan import LoadPlan, SourceKind, default_columns, make_plan
from odradek.pipelines.jobs.progress import Pace, Progress
from odradek.pipelines.jobs.state import JobState
from odradek.pipelines.jobs.tables.table import TableFormat, open_table
from odradek.pipelines.jobs.topic_range import TopicRange
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NOT_FIELDS: Final = set("`$.[]*'\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    bootstrap: str
    source: Path
    topic: str
    state: Path
    """The state directory."""
    name: str
    key: str | None = None
    value: str | None = None
    compression: str = "none"
    batch_bytes: int = 256 * 1024 * 1024


class LoadJob:
    """Create it while the job's lock is held. Checks everything that can be checked before Spark starts."""

    def __init__(self, cluster: Cluster, settings: LoadSettings, state: JobState) -> None:
        self._settings: Final = settings
        self._state: Final = state
        self._brokers: Final = broker_options(settings.bootstrap, cluster.security)
        TopicRange(cluster, settings.topic, skip_lost=False).layout()
        plan_file, self._done_file = state.directory / "plan.json", state.directory / "done"
        plan = LoadPlan.read(plan_file)
        if plan is None:
            plan = make_plan(settings.source, settings.batch_bytes)
            plan.keep(plan_file)
        self._plan: Final = plan
        # A row always becomes the same record, so a repeated batch is identical.
        state.identify(
            {
                "job": "load",
                "source": str(settings.source.absolute()),
                "topic": settings.topic,
                "key": settings.key or "",
                "value": settings.value or "",
            }
        )
        self._id: Final = state.identity()["id"]
        self._pace: Final = Pace(time.monotonic)

    @property
    def done(self) -> int:
        """The number of finished batches."""
        return int(self._done_file.read_text()) if self._done_file.is_file() else 0

    def has_work(self) -> bool:
        return self.done < len(self._plan.batches)

    def progress(self) -> Progress:
        """The unit is batches instead of offsets."""
        here = TopicPartition(self._settings.topic, 0)
        return self._pace.progress({here: self.done}, {here: len(self._plan.batches)})

    def run(
        self,
        spark: "SparkSession",
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Progress:
        settings = self._settings
        options = {**self._brokers, "topic": settings.topic, "kafka.compression.type": settings.compression}
        while self.has_work() and not should_stop():
            batch = self.done
            rows = self._rows(spark, self._plan.batches[batch])
            counted = rows.cache()
            try:
                write_once(counted, options, SinkBatch(f"odradek.{settings.name}.{self._id}", self._id, batch))
                count = counted.count()
            finally:
                counted.unpersist()
            write_atomically(self._done_file, f"{batch + 1}\n")
            self._pace.add(rows=count, dead_letters=0)
            on_progress(self.progress())
        return self.progress()

    def _rows(self, spark: "SparkSession", files: tuple[str, ...]) -> "DataFrame":
        if self._plan.kind is SourceKind.JSON:
            return self._lines(spark, files)
        reader = spark.read
        if self._settings.source.is_dir():
            # For columns in directory names (partition discovery).
            reader = reader.option("basePath", str(self._settings.source.absolute()))
        table = self._table_columns()
        if table is not None:
            reader = reader.schema(table)
        return self._records(reader.parquet(*files))

    def _table_columns(self) -> Any | None:
        """Files from before a column was added do not have it, so use the table's schema."""
        if self._plan.kind is not SourceKind.DELTA:
            return None
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(open_table(TableFormat.DELTA, self._settings.source).columns())

    def _records(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F

        key, fields = default_columns(rows.columns, self._settings.key)
        for name in filter(None, (key, self._settings.value)):
            if name not in rows.columns:
                raise UserError(
                    f"{str(self._settings.source)!r} has no column {name!r}. Choose from {', '.join(rows.columns)}."
                )
        chosen = []
        if key is not None:
            chosen.append(_as_bytes(rows, key).alias("key"))
        if self._settings.value is not None:
            value = _as_bytes(rows, self._settings.value)
        else:
            value = F.to_json(F.struct(*(F.col(_quote(name)) for name in fields)))
        return rows.select(*chosen, value.alias("value"))

    def _lines(self, spark: "SparkSession", files: tuple[str, ...]) -> "DataFrame":
        """Use the text of each line as it is. Only the key is parsed."""
        from pyspark.sql import functions as F

        lines = spark.read.text(list(files)).where("length(trim(value)) > 0")
        settings = self._settings
        for name in filter(None, (settings.key, settings.value)):
            if _NOT_FIELDS & set(name):
                raise UserError(f"{name!r} is not a valid field name. It must not contain any of ` $ . [ ] * ' \\")
        value = F.col("value") if settings.value is None else F.get_json_object("value", f"$.{settings.value}")
        key = [] if settings.key is None else [F.get_json_object("value", f"$.{settings.key}").alias("key")]
        return lines.select(*key, value.alias("value"))


def _as_bytes(rows: "DataFrame", name: str) -> "Column":
    from pyspark.sql import functions as F

    kind = rows.schema[name].dataType.typeName()
    column = F.col(_quote(name))
    if kind in ("binary", "string"):
        return column
    return F.to_json(column) if kind in ("struct", "array", "map") else column.cast("string")


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
