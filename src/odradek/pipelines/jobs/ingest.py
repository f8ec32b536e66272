"""`odradek job ingest`: copies a topic to a table exactly once.

The driver stores a plan of the batch's offsets; tasks decode records and write data files; the driver sends dead
letters, then commits the files with the marker (job, batch). A planned batch without a marker is repeated with the same
offsets, so that the same command resumes after any crash without duplicates.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odradek.base.errors import KafkaError
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.groups import Groups
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.columns import (
    ORIGIN,
    SchemaProblem,
    add_columns,
    columns_text,
    fillable_columns,
    parse_columns,
)
from odradek.pipelines.jobs.dead_letters import JOB, TOPIC, send_letters
from odradek.pipelines.jobs.exactly_once_write import SinkBatch
from odradek.pipelines.jobs.ingest_task import (
    REPORT_SCHEMA,
    SOURCE_COLUMNS,
    TaskReport,
    make_task,
    new_columns,
    origin_of,
    required_schemas,
)
from odradek.pipelines.jobs.interruption import wait
from odradek.pipelines.jobs.progress import Pace, Progress
from odradek.pipelines.jobs.rows import NewFields
from odradek.pipelines.jobs.schema_supply import SchemaSupply
from odradek.pipelines.jobs.state import JobState, Plan
from odradek.pipelines.jobs.tables.catalogs import CatalogPlace
from odradek.pipelines.jobs.tables.table import NO_BATCH, DataFile, Table, TableFormat, open_table
from odradek.pipelines.jobs.topic_range import TopicRange, limit_batch, source_options
from odradek.pipelines.jobs.values import ValueKind
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError, as_sentence
from odradek.text.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A pass that needs schemas or finds new fields is repeated with them.
_PASSES_MAX: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    bootstrap: str
    topic: str
    table: Path
    format: TableFormat = TableFormat.DELTA
    place: CatalogPlace | None = None
    """For a new Iceberg table."""
    name: str
    schema: str | None = None
    values: ValueKind = ValueKind.JSON
    registry: str | None = field(default=None, repr=False)
    """The URL, which may contain a password."""
    schema_files: tuple[str, ...] = ()
    message: str | None = None
    new_fields: NewFields = NewFields.ADD
    dead_letters: str | None = None
    start: str | None = None
    end: str | None = None
    follow: bool = False
    interval_s: float = 1.0
    batch_records: int = 500_000
    skip_lost: bool = False
    group: str | None = None


class IngestJob:
    """Create it while the job's lock is held. Checks everything that can be checked before Spark starts."""

    def __init__(self, cluster: Cluster, settings: IngestSettings, state: JobState) -> None:
        self._cluster: Final = cluster
        self._settings: Final = settings
        self._state: Final = state
        self._brokers: Final = broker_options(settings.bootstrap, cluster.security)
        self._table: Final[Table] = open_table(settings.format, settings.table, settings.place)
        self._range: Final = TopicRange(cluster, settings.topic, skip_lost=settings.skip_lost)
        self._range.layout()
        if settings.dead_letters is not None:
            TopicRange(cluster, settings.dead_letters, skip_lost=False).layout()
        self._target = self._range.last(settings.end)
        self._supply: Final = SchemaSupply(
            settings.values,
            state.schemas,
            registry=settings.registry,
            files=settings.schema_files,
            message=settings.message,
            stores_unknown=settings.dead_letters is not None,
        )
        self._identify()
        self._supply.store_given()
        self._columns = self._known_columns()
        self._reached = Positions()
        self._interrupted = self._find_interrupted()
        self._pace = Pace(time.monotonic)

    def progress(self) -> Progress:
        reached = dict(self._reached.partitions())
        return self._pace.progress(reached, self._target)

    def run(
        self,
        spark: "SparkSession",
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Progress:
        """Run until the target is reached or `should_stop`, which is checked after each batch."""
        while not should_stop():
            plan = self._interrupted or self._plan()
            if plan is None:
                if not self._settings.follow:
                    break
                wait(self._settings.interval_s, should_stop)
                continue
            self._run_batch(spark, plan)
            self._interrupted = None
            on_progress(self.progress())
        return self.progress()

    def has_work(self) -> bool:
        """Whether Spark must be started."""
        return self._settings.follow or self._interrupted is not None or self._plan(keep=False) is not None

    # ---- state of earlier runs

    def _identify(self) -> None:
        """Store the identity in the first run, after all checks. Later runs must match it."""
        settings = self._settings
        kinds = {"format": str(settings.format), "values": str(settings.values)}
        identity = {"job": "ingest", "topic": settings.topic, **kinds}
        if self._state.exists:
            self._state.identify(identity | {"from": settings.start or ""})
            return
        self._table.check_new()
        if self._table.last_batch(settings.name) != NO_BATCH:
            raise UserError(
                f"The table has batches of job {settings.name!r}, but its state in {str(self._state.directory)!r} is "
                "missing. Restore the state, or start a new job in a new table."
            )
        self._given_columns()
        start = settings.start or "beginning"
        # Store offsets, because "end" has another meaning in the next run.
        self._state.keep_first(self._range.first(start))
        self._state.identify(identity | {"from": start})

    def _given_columns(self) -> Any | None:
        if self._settings.schema is None:
            return None
        try:
            return parse_columns(self._settings.schema)
        except SchemaProblem as error:
            raise UserError(f"--schema: {error}") from None

    def _known_columns(self) -> Any:
        stored, given = self._state.columns(), self._given_columns()
        if given is None:
            return fillable_columns(self._table.columns()) if stored is None else stored
        if stored is None:
            self._state.keep_columns(given)
            return given
        for one in given:
            if one.name not in stored.names or stored.field(one.name).type != one.type:
                raise UserError(
                    f"--schema: the job's schema is {columns_text(stored)!r}, which has no column {one.name!r} of type "
                    f"{one.type}. Remove --schema, or start a new job."
                )
        return stored

    def _find_interrupted(self) -> Plan | None:
        """Return the batch that was planned but not committed."""
        done = self._table.last_batch(self._settings.name)
        last = self._state.last_plan()
        planned = NO_BATCH if last is None else last.batch
        if planned == done:
            self._reached = self._state.first() or Positions() if last is None else last.end
            return None
        if last is None or planned != done + 1:
            raise UserError(
                f"The table ends with batch {done} of job {self._settings.name!r}, but the job's state ends with batch "
                f"{planned}. One of them is an older copy. Restore both from the same time."
            )
        self._reached = last.start
        # Raises UserError if its records have been deleted in the meantime.
        self._range.next(last.start)
        return last

    # ---- a batch

    def _plan(self, *, keep: bool = True) -> Plan | None:
        settings = self._settings
        if settings.follow:
            self._target = self._range.last(settings.end)
        start = self._range.next(self._reached)
        end = limit_batch(start, self._target, settings.batch_records)
        if end is None:
            return None
        plan = Plan(self._table.last_batch(settings.name) + 1, start, end, settings.new_fields)
        if keep:
            self._state.keep_plan(plan)
        return plan

    def _run_batch(self, spark: "SparkSession", plan: Plan) -> None:
        settings = self._settings
        stale: list[str] = []
        for _ in range(_PASSES_MAX):
            reports = self._pass(spark, plan)
            wanted = required_schemas(reports)
            columns = add_columns(self._columns, new_columns(reports))
            if columns == self._columns and not wanted:
                break
            stale += [one.file for one in reports if one.file is not None]
            self._supply.fetch_missing(plan.batch, wanted)
            if columns != self._columns:
                self._columns = columns
                self._state.keep_columns(columns)
        else:
            raise UserError(f"Batch {plan.batch} has new fields in every pass. Set the columns with --schema.")
        # Offsets of a recreated topic refer to other records.
        self._range.check_same(plan.end)
        self._table.shape(pa.schema([*ORIGIN, *self._columns]))
        self._refuse_or_send(spark, plan.batch, reports)
        files = [
            DataFile(one.file, one.size_bytes, one.modified_ms, one.rows) for one in reports if one.file is not None
        ]
        self._table.commit(settings.name, plan.batch, files)
        self._reached = plan.end
        self._pace.add(rows=sum(one.rows for one in reports), dead_letters=sum(one.bad for one in reports))
        self._tidy(plan.batch, stale)
        self._publish_progress(plan.end)

    def _pass(self, spark: "SparkSession", plan: Plan) -> list[TaskReport]:
        settings = self._settings
        columns = (*SOURCE_COLUMNS, "headers") if settings.dead_letters else SOURCE_COLUMNS
        settings.table.mkdir(parents=True, exist_ok=True)
        task = make_task(
            topic=settings.topic,
            directory=settings.table,
            job=settings.name,
            batch=plan.batch,
            columns=self._columns,
            new_fields=plan.new_fields,
            values=self._supply.values(plan.batch),
            letters=self._state.letters if settings.dead_letters else None,
        )
        records = (
            spark.read.format("odradek")
            .options(**source_options(self._brokers, plan.start, plan.end))
            .options(columns=",".join(columns), failOnDataLoss=str(not settings.skip_lost).lower())
            .load()
        )
        rows = records.mapInArrow(lambda batches: task(batches), REPORT_SCHEMA).collect()
        return [TaskReport.from_json(row.report) for row in rows]

    def _refuse_or_send(self, spark: "SparkSession", batch: int, reports: list[TaskReport]) -> None:
        settings = self._settings
        bad = [one for one in reports if one.bad]
        if not bad:
            return
        if settings.dead_letters is None:
            raise UserError(
                f"{sum(one.bad for one in bad)} records do not fit the table, the first at "
                f"{origin_of(bad[0], settings.topic)}. Nothing of this batch was written. Choose a topic for such "
                "records with --dead-letters."
            )
        identity = self._state.identity()["id"]
        send_letters(
            spark,
            [str((self._state.letters / one.letters).absolute()) for one in bad if one.letters is not None],
            {**self._brokers, "topic": settings.dead_letters},
            sink=SinkBatch(f"odradek.{settings.name}.{identity}.dead-letters", identity, batch),
            origin={JOB: settings.name, TOPIC: settings.topic},
        )

    def _tidy(self, batch: int, stale: list[str]) -> None:
        """Remove the leftover files of this run. Files of crashed attempts stay, but are not part of the table."""
        for letters in self._state.letters.glob(f"part-{batch:010d}-*"):
            letters.unlink(missing_ok=True)
        for name in stale:
            (self._settings.table / name).unlink(missing_ok=True)

    def _publish_progress(self, reached: Positions) -> None:
        """Commit the offsets to a group for other tools. The job does not depend on it."""
        if self._settings.group is None:
            return
        try:
            Groups(self._cluster).show_progress(self._settings.group, dict(reached.partitions()))
        except (ClientError, KafkaError) as error:
            say(as_sentence(f"Cannot commit the job's offsets to group {self._settings.group}: {error}"))
