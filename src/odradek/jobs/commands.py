"""What the command line calls: a job from its settings to its exit code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.cli.output import OutputFormat
from odradek.client.cluster import Cluster
from odradek.jobs.display import finish, progress_display
from odradek.jobs.ingest import IngestJob, IngestSettings
from odradek.jobs.interruption import stop_requests
from odradek.jobs.session import spark_session
from odradek.jobs.state import JobState

INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    master: str
    conf: Mapping[str, str]


def run_ingest(cluster: Cluster, settings: IngestSettings, spark: SparkSettings, format: OutputFormat) -> int:
    state = JobState(settings.table, settings.name)
    what = f"{settings.topic} → {settings.table}"
    with state.held(), stop_requests() as should_stop:
        job = IngestJob(cluster, settings, state)
        progress = job.progress()
        if job.has_work():
            log_file = state.directory / "spark.log"
            with (
                spark_session(
                    f"ingest {settings.name}", master=spark.master, log_file=log_file, conf=spark.conf
                ) as session,
                progress_display(what, format) as show,
            ):
                progress = job.run(session, on_progress=show, should_stop=should_stop)
        interrupted = should_stop()
    finish(what, progress, format, interrupted=interrupted)
    return INTERRUPTED if interrupted else 0
