"""Reads the state directories of pipelines on this machine, and whether each pipeline runs.

`odradek.pipelines.jobs` is a higher layer with more dependencies, so this module imports it on demand.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError

RUN_LOG: Final = "console-run.log"
"""Log file, in the state directory, of runs that the console started."""

_ERROR: Final = "error: "
_LOG_CHARACTERS: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySeen:
    name: str
    records: int
    records_per_second: float | None
    lag: int
    lag_unit: str | None = None
    """The unit of `lag`; None means records."""
    dead_letters: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSeen:
    """State of a pipeline or a job."""

    name: str
    state: str
    is_running: bool
    at_ms: int | None
    queries: tuple[QuerySeen, ...]
    problem: str | None
    """Why the pipeline failed, or why its state cannot be read."""


def describe_pipelines(files: Sequence[Path]) -> list[PipelineSeen]:
    """Blocks on file reads. A failure of one pipeline does not affect the others."""
    return [_describe(file) for file in files]


def state_directory(file: Path) -> Path:
    """Raises UserError if the file is not a pipeline."""
    found: Path = jobs_module("pipeline.definition").read_pipeline(file).state
    return found


def _describe(file: Path) -> PipelineSeen:
    try:
        pipeline: Any = jobs_module("pipeline.definition").read_pipeline(file)
        status: Any = jobs_module("pipeline.status").PipelineStatus.read(pipeline.state)
        runs = jobs_module("lock").find_holder(pipeline.state / "lock") is not None
    except UserError as error:
        return unreadable(file.name, str(error))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return unreadable(file.name, f"its state cannot be read: {error}")
    queries = () if status is None else tuple(_query(one) for one in status.queries)
    return of_run(pipeline.name, pipeline.state, status, queries, is_running=runs)


def _query(one: Any) -> QuerySeen:
    return QuerySeen(
        name=one.name,
        records=one.records,
        records_per_second=one.records_per_second,
        lag=one.lag,
        dead_letters=one.dead_letters,
        seconds_left=one.seconds_left,
    )


def of_run(
    name: str, directory: Path, status: Any, queries: tuple[QuerySeen, ...], *, is_running: bool
) -> PipelineSeen:
    """`status` is the last stored status of a run in this directory, if any."""
    refusal = None if is_running else _refusal(directory / RUN_LOG, status.at_ms if status else 0)
    if status is None:
        state = "starting" if is_running else "never started"
        return PipelineSeen(name=name, state=state, is_running=is_running, at_ms=None, queries=(), problem=refusal)
    # A killed process leaves the state `running` behind.
    state = status.state if is_running or status.state != "running" else "stopped unexpectedly"
    return PipelineSeen(
        name=name,
        state="running" if is_running else state,
        is_running=is_running,
        at_ms=status.at_ms,
        queries=queries,
        problem=None if is_running else refusal or status.failure,
    )


def _refusal(log: Path, since_ms: int) -> str | None:
    """Returns why a run started by the console failed to start, if that is newer than the stored status."""
    try:
        if log.stat().st_mtime_ns // 1_000_000 < since_ms:
            return None
        lines = log.read_text(errors="replace")[-_LOG_CHARACTERS:].splitlines()
    except OSError:
        return None
    return next((line.removeprefix(_ERROR) for line in reversed(lines) if line.startswith(_ERROR)), None)


def unreadable(name: str, why: str) -> PipelineSeen:
    return PipelineSeen(name=name, state="unreadable", is_running=False, at_ms=None, queries=(), problem=why)


def last_line(text: str) -> str:
    """Returns the last log line without its prefix, ignoring JSON output."""
    lines = [line for line in text.splitlines() if line.strip() and not _is_json(line)]
    return lines[-1].removeprefix(_ERROR) if lines else ""


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
