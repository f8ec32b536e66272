"""The end of a live tail: somebody asks for it, and it comes when the source has been silent since then."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.state import JobState

# A producer that was stopped a moment ago may still have records on the way.
IDLE_S: Final = 2.0


class Switch:
    def __init__(self, state: JobState, clock: Callable[[], float] = time.monotonic) -> None:
        self._file: Final = state.directory / "switch"
        self._clock: Final = clock
        self._idle_since: float | None = None

    def request(self) -> None:
        """From another process than the one that copies."""
        write_atomically(self._file, "")

    @property
    def is_requested(self) -> bool:
        return self._file.is_file()

    def is_idle(self, ends: Mapping[TopicPartition, int], reached: Mapping[TopicPartition, int]) -> bool:
        """True once: then the question is answered. `ends`: of all that was written, decided or not."""
        if ends != reached:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = self._clock()
        if self._clock() - self._idle_since < IDLE_S:
            return False
        self._file.unlink(missing_ok=True)
        return True
