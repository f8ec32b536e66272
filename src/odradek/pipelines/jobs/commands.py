"""The entry points of `odradek job`: run a job and return the exit code."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Final, Protocol

from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.audit import TableAudit, TableAuditSettings
from odradek.pipelines.jobs.audit_report import report_table, report_topics
from odradek.pipelines.jobs.audit_topics import TopicAudit
from odradek.pipelines.jobs.display import finish, progress_display
from odradek.pipelines.jobs.ingest import IngestJob, IngestSettings
from odradek.pipelines.jobs.interruption import interrupt_on_terminate, stop_requests
from odradek.pipelines.jobs.load import LoadJob, LoadSettings
from odradek.pipelines.jobs.lock import hold_lock
from odradek.pipelines.jobs.progress import Progress
from odradek.pipelines.jobs.run_status import RunWatch
from odradek.pipelines.jobs.session import spark_session
from odradek.pipelines.jobs.skew.job import SkewJob, SkewSettings
from odradek.pipelines.jobs.skew.report import report_skew
from odradek.pipelines.jobs.state import LOCK, JobState, list_jobs
from odradek.pipelines.jobs.status_file import DONE, FAILED, STOPPED
from odradek.pipelines.jobs.stopping import stop_holder
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat
from odradek.text.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_EXACT: Final = 1
INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    master: str
    conf: Mapping[str, str]
    remote: str | None = None
    """A Spark Connect server to use instead of a local driver."""

    def session(self, name: str, log_file: Path) -> "AbstractContextManager[SparkSession]":
        return spark_session(name, master=self.master, log_file=log_file, conf=self.conf, remote=self.remote)


def run_ingest(cluster: Cluster, settings: IngestSettings, spark: SparkSettings, format: OutputFormat) -> int:
    state = JobState(settings.table, settings.name)
    what = f"{settings.topic} → {settings.table}"
    return run_batches(
        f"ingest {settings.name}", what, state, lambda: IngestJob(cluster, settings, state), spark, format
    )


def run_load(cluster: Cluster, settings: LoadSettings, spark: SparkSettings, format: OutputFormat) -> int:
    state = JobState(settings.state, settings.name)
    what = f"{settings.source} → {settings.topic}"
    return run_batches(f"load {settings.name}", what, state, lambda: LoadJob(cluster, settings, state), spark, format)


class BatchJob(Protocol):
    """Created while its lock is held. The constructor raises UserError."""

    def has_work(self) -> bool: ...

    def progress(self) -> Progress: ...

    def run(
        self,
        spark: "SparkSession",
        *,
        on_progress: Callable[[Progress], None] = ...,
        should_stop: Callable[[], bool] = ...,
    ) -> Progress: ...


def run_batches(
    name: str,
    what: str,
    state: JobState,
    make: Callable[[], BatchJob],
    spark: SparkSettings,
    format: OutputFormat,
    *,
    when_done: "Callable[[SparkSession], None]" = lambda session: None,
) -> int:
    """`when_done` is called unless the run was stopped."""
    with state.hold(), stop_requests() as should_stop, RunWatch(state.directory, what) as watch:
        job = make()
        progress = job.progress()
        watch.take(progress)
        if job.has_work():
            log_file = state.directory / "spark.log"
            with (
                spark.session(name, log_file) as session,
                progress_display(what, format) as show,
            ):
                if format is OutputFormat.TABLE:
                    show(progress)

                def report(progress: Progress) -> None:
                    watch.take(progress)
                    show(progress)

                def check_stop() -> bool:
                    # A waiting job calls this several times per second.
                    watch.refresh(job.progress)
                    return should_stop()

                progress = job.run(session, on_progress=report, should_stop=check_stop)
                if not should_stop():
                    when_done(session)
        interrupted = should_stop()
        watch.end(STOPPED if interrupted else DONE, progress)
    finish(what, progress, format, interrupted=interrupted)
    return INTERRUPTED if interrupted else 0


def stop(table: Path, name: str | None, timeout_s: float, *, is_audit: bool) -> None:
    """Stop a run on this machine: a job after its batch, an audit at once."""
    known = list_jobs(table)
    if name is None:
        if len(known) != 1:
            if not known:
                raise UserError(f"Table {str(table)!r} has no jobs. Check the directory.")
            raise UserError(f"Table {str(table)!r} has several jobs. Choose one of {', '.join(known)} with --name.")
        (name,) = known
    state = JobState(table, name)
    title = f"the audit of job {name}" if is_audit else f"job {name}"
    if stop_holder(state.audits / LOCK if is_audit else state.lock, timeout_s):
        say(f"Stopped {title}.")
    else:
        say(f"{title[:1].upper()}{title[1:]} is not running.")


def audit_table(cluster: Cluster, settings: TableAuditSettings, spark: SparkSettings, format: OutputFormat) -> int:
    audit = TableAudit(cluster, settings)
    state, what = JobState(settings.table, settings.name), f"{settings.topic} = {settings.table}"
    with ExitStack() as stack:
        stack.enter_context(interrupt_on_terminate())
        watch = stack.enter_context(RunWatch(_lock_if_possible(stack, state.audits), what))
        with temporary_session(f"audit {settings.name}", spark) as session:
            findings = audit.run(session)
        watch.end(
            DONE if findings.is_exact else FAILED,
            findings.as_progress(),
            None if findings.is_exact else f"Not exact: {findings.faults_text()}.",
        )
    report_table(findings, format)
    return 0 if findings.is_exact else NOT_EXACT


def _lock_if_possible(stack: ExitStack, directory: Path) -> Path | None:
    """Return None if there is no lock. An audit is read-only, so the table may be read-only or audited twice."""
    try:
        directory.mkdir(exist_ok=True)
        stack.enter_context(hold_lock(directory / LOCK, "Another audit is running."))
    except (OSError, UserError):
        return None
    return directory


def audit_topics(audit: TopicAudit, spark: SparkSettings, format: OutputFormat) -> int:
    with temporary_session("audit", spark) as session:
        findings = audit.run(session)
    report_topics(findings, format)
    return 0 if findings.is_exact else NOT_EXACT


def skew(
    cluster: Cluster, settings: SkewSettings, spark: SparkSettings, format: OutputFormat, report: Path | None
) -> None:
    job = SkewJob(cluster, settings)
    with ExitStack() as stack:
        name = f"skew {settings.topic}"
        findings = job.run(stack.enter_context(temporary_session(name, spark)) if job.has_work else None)
    report_skew(findings, format, report)


@contextmanager
def temporary_session(name: str, spark: SparkSettings) -> "Iterator[SparkSession]":
    """A session for jobs without state. Spark's log is kept only after an error."""
    handle, path = mkstemp(prefix="odradek-spark-", suffix=".log")
    os.close(handle)
    log_file = Path(path)
    with spark.session(name, log_file) as session:
        yield session
    log_file.unlink(missing_ok=True)
