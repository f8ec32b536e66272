"""The status of a run of `odradek job`, stored in a file for the console and other tools."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from odradek.client.explain import explain
from odradek.pipelines.jobs.progress import Progress
from odradek.pipelines.jobs.status_file import DONE, FAILED, RUNNING, STOPPED, keep_status, read_status

# How often to refresh the status without progress.
_KEEP_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    pid: int
    state: str
    """running, done, stopped or failed."""
    at_ms: int
    what: str
    """Source and target, for display."""
    progress: Progress | None = None
    failure: str | None = None

    def keep(self, directory: Path) -> None:
        keep_status(directory, self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "state": self.state,
            "at_ms": self.at_ms,
            "what": self.what,
            "progress": None if self.progress is None else self.progress.to_json(),
            "failure": self.failure,
        }

    @classmethod
    def read(cls, directory: Path) -> "RunStatus | None":
        """Raises ValueError or KeyError if the file is invalid."""
        form = read_status(directory)
        if form is None:
            return None
        progress = form["progress"]
        return cls(
            pid=form["pid"],
            state=form["state"],
            at_ms=form["at_ms"],
            what=form["what"],
            progress=None if progress is None else Progress.from_json(progress),
            failure=form["failure"],
        )


class RunWatch:
    """Stores the status of a run from start to end, also after an error. Without a directory it does nothing."""

    def __init__(self, directory: Path | None, what: str) -> None:
        self._directory: Final = directory
        self._what: Final = what
        self._progress: Progress | None = None
        self._kept_at = float("-inf")
        self._has_ended = False

    def __enter__(self) -> "RunWatch":
        self._keep(RUNNING)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._keep(STOPPED)
        elif error is not None:
            self._keep(FAILED, explain(error) or f"{type(error).__name__}: {error}")
        elif not self._has_ended:
            self._keep(DONE)

    def take(self, progress: Progress) -> None:
        """Store new progress."""
        self._progress = progress
        self._keep(RUNNING)

    def refresh(self, progress: Callable[[], Progress]) -> None:
        """Refresh the status of a waiting run. May be called often."""
        if time.monotonic() > self._kept_at + _KEEP_S:
            self.take(progress())

    def end(self, state: str, progress: Progress, failure: str | None = None) -> None:
        self._progress = progress
        self._keep(state, failure)
        self._has_ended = True

    def _keep(self, state: str, failure: str | None = None) -> None:
        if self._directory is None:
            return
        RunStatus(
            pid=os.getpid(),
            state=state,
            at_ms=time.time_ns() // 1_000_000,
            what=self._what,
            progress=self._progress,
            failure=failure,
        ).keep(self._directory)
        self._kept_at = time.monotonic()
