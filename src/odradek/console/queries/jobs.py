"""Reads the state that jobs on this machine store beside their tables, and whether each one runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odradek.console.queries.pipelines import PipelineSeen, QuerySeen, of_run, unreadable
from odradek.pipelines.job_command import AUDIT, LOAD, JobCommand
from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError


def describe_jobs(jobs: Sequence[JobCommand]) -> list[PipelineSeen]:
    """Blocks on file reads. A failure of one job does not affect the others."""
    return [_describe(job) for job in jobs]


def job_directory(job: JobCommand) -> Path:
    """Returns the directory of the job's state. Raises UserError for an invalid job name or table."""
    state: Any = jobs_module("state").JobState(job.table, job.name)
    found: Path = state.audits if job.kind == AUDIT else state.directory
    return found


def _describe(job: JobCommand) -> PipelineSeen:
    try:
        directory = job_directory(job)
        status: Any = jobs_module("run_status").RunStatus.read(directory)
        runs = jobs_module("lock").find_holder(directory / jobs_module("state").LOCK) is not None
    except UserError as error:
        return unreadable(str(job), str(error))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return unreadable(str(job), f"its state cannot be read: {error}")
    return of_run(str(job), directory, status, _figures(job, status), is_running=runs)


def _figures(job: JobCommand, status: Any) -> tuple[QuerySeen, ...]:
    if status is None or status.progress is None:
        return ()
    progress = status.progress
    return (
        QuerySeen(
            name=status.what,
            records=progress.rows,
            records_per_second=progress.rows_per_second,
            lag=progress.lag,
            lag_unit="batches" if job.kind == LOAD else None,
            dead_letters=progress.dead_letters,
            seconds_left=progress.seconds_left,
        ),
    )
