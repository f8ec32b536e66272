"""`odradek job rewrite`: copies a topic to another exactly once and in order by key.

The driver stores a plan of the batch's offsets; tasks create the new records; one task writes each target partition,
sorted by source partition and offset; the exactly-once sink commits the batch. An unfinished batch is repeated, so that
the same command resumes after any crash.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.client.admin import LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.broker_options import broker_options
from odradek.pipelines.jobs.exactly_once_write import SinkBatch, write_once
from odradek.pipelines.jobs.interruption import wait
from odradek.pipelines.jobs.progress import Pace, Progress
from odradek.pipelines.jobs.rewrite.history import RewriteHistory, sink_name
from odradek.pipelines.jobs.rewrite.rows import RewrittenRows, check_sql
from odradek.pipelines.jobs.rewrite.rules import Rules
from odradek.pipelines.jobs.rewrite.switch import Switch
from odradek.pipelines.jobs.rewrite.target import Target
from odradek.pipelines.jobs.rewrite.task import COUNT
from odradek.pipelines.jobs.state import JobState, Plan
from odradek.pipelines.jobs.topic_range import TopicRange, limit_batch
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The number of records that justifies a task with its own transaction. Smaller partitions share a task.
_RECORDS_PER_TASK: Final = 50_000
_RECORD: Final = ("key", "value", "headers", "timestamp", "partition")
_ORIGIN: Final = ("source_partition", "source_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings:
    bootstrap: str
    source: str
    target: str
    state: Path
    """The state directory."""
    name: str
    rules: Rules = field(default_factory=Rules)
    partitions: int | None = None
    """None: as many as the existing target, or else the source."""
    start: str | None = None
    follow: bool = False
    interval_s: float = 1.0
    batch_records: int = 500_000
    skip_lost: bool = False
    compression: str = "none"


class RewriteJob:
    """Create it while the job's lock is held. Checks everything that can be checked before Spark starts."""

    def __init__(self, cluster: Cluster, settings: RewriteSettings, state: JobState) -> None:
        self._cluster: Final = cluster
        self._settings: Final = settings
        self._state: Final = state
        self._brokers: Final = broker_options(settings.bootstrap, cluster.security)
        self._admin: Final = Admin(cluster)
        self._range: Final = TopicRange(cluster, settings.source, skip_lost=settings.skip_lost)
        self._range.layout()
        self._new_target: Final = Target(cluster, settings.source, settings.target)
        self._switch: Final = Switch(state)
        self._pace: Final = Pace(time.monotonic)
        self._target = self._range.last(None)
        self._reached = Positions()
        self._interrupted: Plan | None = None
        self._history: RewriteHistory | None = None
        if state.exists:
            self._check_identity()
            self._resume()
        else:
            sink_name(settings.name, "")
            self._new_target.check_new(settings.partitions)
            self._reached = self._range.first(settings.start or "beginning")

    @property
    def erases(self) -> bool:
        return self._settings.rules.erased is not None

    def progress(self) -> Progress:
        return self._pace.progress(dict(self._reached.partitions()), self._target)

    def has_work(self) -> bool:
        """Whether Spark must be started. The first run needs it to validate SQL before the target is created."""
        if self._history is None or self._settings.follow or self._interrupted is not None:
            return True
        return self.erases or self._plan(keep=False) is not None

    def run(
        self,
        spark: "SparkSession",
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Progress:
        """Run until the end at the start of the run, with `follow` until the switch, or until `should_stop`, which is
        checked after each batch.
        """
        check_sql(spark, self._settings.rules)
        history = self._history or self._start()
        rows = RewrittenRows(
            self._cluster,
            self._settings.bootstrap,
            self._settings.source,
            self._settings.rules,
            history.target.partitions,
            skip_lost=self._settings.skip_lost,
        )
        while not should_stop():
            plan = self._interrupted or self._plan()
            if plan is not None:
                self._run_batch(spark, rows, history, plan)
                on_progress(self.progress())
            elif not self._settings.follow or self._should_switch():
                break
            else:
                wait(self._settings.interval_s, should_stop)
        return self.progress()

    # ---- state of earlier runs

    def _start(self) -> RewriteHistory:
        """Create the target and store the identity in the first run, after all checks."""
        settings = self._settings
        made = self._new_target.make(settings.partitions)
        self._state.keep_first(self._reached)
        self._state.identify(
            {
                **self._identity(),
                "from": settings.start or "beginning",
                "target_id": made.id,
                "partitions": str(made.partitions),
            }
        )
        self._resume()
        assert self._history is not None
        return self._history

    def _identity(self) -> dict[str, str]:
        settings = self._settings
        return {"job": "rewrite", "topic": settings.source, "target": settings.target, **settings.rules.to_identity()}

    def _check_identity(self) -> None:
        """Raises UserError unless the options are the same as in the first run."""
        known, settings = self._state.identity(), self._settings
        requested = self._identity()
        if settings.start is not None:
            requested["from"] = settings.start
        if settings.partitions is not None:
            requested["partitions"] = str(settings.partitions)
        for key, value in requested.items():
            if known.get(key) != value:
                what = "other --without-keys" if key == "erased" else f"{key} {known.get(key)!r}"
                raise UserError(
                    f"{str(self._state.directory)!r} belongs to a job with {what}. Use the same options, or start a "
                    "new job with another --name and topic."
                )

    def _resume(self) -> None:
        history = RewriteHistory(self._cluster, self._state, self._settings.name)
        self._new_target.check_same(history.target)
        self._reached, self._interrupted = history.find_progress()
        if self._interrupted is not None:
            # Raises UserError if its records have been deleted in the meantime.
            self._range.next(self._interrupted.start)
        elif (last := self._state.last_plan()) is not None and history.ends() is None:
            self._keep_ends(history, last.batch)
        self._history = history

    def _keep_ends(self, history: RewriteHistory, batch: int) -> None:
        target = TopicRange(self._cluster, self._settings.target, skip_lost=True)
        history.keep_ends(batch, target.latest(target.partitions()))

    # ---- a batch

    def _plan(self, *, keep: bool = True) -> Plan | None:
        settings = self._settings
        if settings.follow:
            self._target = self._range.last(None)
        start = self._range.next(self._reached)
        end = limit_batch(start, self._target, settings.batch_records)
        if end is None:
            return None
        last = self._state.last_plan()
        plan = Plan(0 if last is None else last.batch + 1, start, end)
        if keep:
            self._state.keep_plan(plan)
        return plan

    def _run_batch(self, spark: "SparkSession", rows: RewrittenRows, history: RewriteHistory, plan: Plan) -> None:
        from pyspark import StorageLevel

        settings = self._settings
        self._new_target.check_same(history.target)
        # Offsets of a recreated topic refer to other records.
        self._range.check_same(plan.end)
        # They are counted after writing, so persist them on disk.
        made = rows.rewrite(rows.records(spark, plan.start, plan.end)).persist(StorageLevel.DISK_ONLY)
        try:
            write_once(
                self._in_order(made.where(f"partition != {COUNT}"), plan, history.target.partitions),
                {**self._brokers, "topic": settings.target, "kafka.compression.type": settings.compression},
                SinkBatch(history.sink, history.id, plan.batch),
            )
            read, written = _counts(made)
        finally:
            made.unpersist()
        self._interrupted, self._reached = None, plan.end
        self._keep_ends(history, plan.batch)
        self._pace.add(rows=written, left_out=read - written)

    def _in_order(self, made: "DataFrame", plan: Plan, partitions: int) -> "DataFrame":
        """Assign each target partition to one task, sorted in source order."""
        size = sum(offset - (plan.start.find(one) or 0) for one, offset in plan.end.partitions())
        tasks = min(partitions, -(-size // _RECORDS_PER_TASK))
        return made.repartition(tasks, "partition").sortWithinPartitions(*_ORIGIN).select(*_RECORD)

    # ---- the end of the tail

    def _should_switch(self) -> bool:
        """Whether a switch was requested and the source has been idle since, without open transactions."""
        if not self._switch.is_requested:
            return False
        reached = dict(self._reached.partitions())
        found = self._admin.offsets(dict.fromkeys(self._range.partitions(), LATEST))
        return self._switch.is_idle(
            {one: offset for one, offset in found.items() if offset}, {one: at for one, at in reached.items() if at}
        )


def _counts(made: "DataFrame") -> tuple[int, int]:
    """Return the numbers of records read and written."""
    row = made.selectExpr(
        f"coalesce(sum(if(partition = {COUNT}, source_offset, 0)), 0)", f"count_if(partition != {COUNT})"
    ).collect()[0]
    return row[0], row[1]
