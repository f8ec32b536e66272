"""What the command line calls: a job from its settings to its exit code."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Final

from odradek.cli.output import OutputFormat
from odradek.client.cluster import Cluster
from odradek.jobs.audit import TableAudit, TableAuditSettings
from odradek.jobs.audit_report import report_table, report_topics
from odradek.jobs.audit_topics import TopicAudit
from odradek.jobs.display import finish, progress_display
from odradek.jobs.ingest import IngestJob, IngestSettings
from odradek.jobs.interruption import stop_requests
from odradek.jobs.load import LoadJob, LoadSettings
from odradek.jobs.session import spark_session
from odradek.jobs.state import JobState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_EXACT: Final = 1
INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    master: str
    conf: Mapping[str, str]


def run_ingest(cluster: Cluster, settings: IngestSettings, spark: SparkSettings, format: OutputFormat) -> int:
    state = JobState(settings.table, settings.name)
    what = f"{settings.topic} → {settings.table}"
    return _run(f"ingest {settings.name}", what, state, lambda: IngestJob(cluster, settings, state), spark, format)


def run_load(cluster: Cluster, settings: LoadSettings, spark: SparkSettings, format: OutputFormat) -> int:
    state = JobState(settings.state, settings.name)
    what = f"{settings.source} → {settings.topic}"
    return _run(f"load {settings.name}", what, state, lambda: LoadJob(cluster, settings, state), spark, format)


def _run(
    name: str,
    what: str,
    state: JobState,
    make: Callable[[], IngestJob | LoadJob],
    spark: SparkSettings,
    format: OutputFormat,
) -> int:
    with state.held(), stop_requests() as should_stop:
        job = make()
        progress = job.progress()
        if job.has_work():
            log_file = state.directory / "spark.log"
            with (
                spark_session(name, master=spark.master, log_file=log_file, conf=spark.conf) as session,
                progress_display(what, format) as show,
            ):
                if format is OutputFormat.TABLE:
                    show(progress)
                progress = job.run(session, on_progress=show, should_stop=should_stop)
        interrupted = should_stop()
    finish(what, progress, format, interrupted=interrupted)
    return INTERRUPTED if interrupted else 0


def audit_table(cluster: Cluster, settings: TableAuditSettings, spark: SparkSettings, format: OutputFormat) -> int:
    audit = TableAudit(cluster, settings)
    with passing_session(f"audit {settings.name}", spark) as session:
        findings = audit.run(session)
    report_table(findings, format)
    return 0 if findings.is_exact else NOT_EXACT


def audit_topics(audit: TopicAudit, spark: SparkSettings, format: OutputFormat) -> int:
    with passing_session("audit", spark) as session:
        findings = audit.run(session)
    report_topics(findings, format)
    return 0 if findings.is_exact else NOT_EXACT


@contextmanager
def passing_session(name: str, spark: SparkSettings) -> "Iterator[SparkSession]":
    """For jobs that leave nothing behind. Spark's log stays only if something failed."""
    handle, path = mkstemp(prefix="odradek-spark-", suffix=".log")
    os.close(handle)
    log_file = Path(path)
    with spark_session(name, master=spark.master, log_file=log_file, conf=spark.conf) as session:
        yield session
    log_file.unlink(missing_ok=True)
