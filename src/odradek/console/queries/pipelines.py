"""Pipelines of this machine, by their files: what each says of itself in its state directory, and whether it runs.

`odradek.pipelines.jobs` lies above this package and wants more than the console: it is imported when somebody looks.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError

RUN_LOG: Final = "console-run.log"
"""In the state directory: what a run says that was started from here."""

_ERROR: Final = "error: "
_LOG_CHARACTERS: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySeen:
    name: str
    records: int
    records_per_second: float | None
    lag: int
    lag_unit: str | None = None
    """Records, unless it says something else."""
    dead_letters: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSeen:
    """Or a job, which is told in the same words."""

    name: str
    state: str
    is_running: bool
    at_ms: int | None
    queries: tuple[QuerySeen, ...]
    problem: str | None
    """Why it failed, or why nothing can be said of it."""


def describe_pipelines(files: Sequence[Path]) -> list[PipelineSeen]:
    """Blocks: reads files. What is wrong with one is said of it, and of no other."""
    return [_describe(file) for file in files]


def state_directory(file: Path) -> Path:
    """Raises UserError if the file is no pipeline."""
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
    """`status`: what was last kept of a run in this directory, if anything."""
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
    """Why a run that was started from here did not begin, if that was after what the pipeline says of itself."""
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
    """What a command said last, without the word before it: JSON that it printed is no sentence."""
    lines = [line for line in text.splitlines() if line.strip() and not _is_json(line)]
    return lines[-1].removeprefix(_ERROR) if lines else ""


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
