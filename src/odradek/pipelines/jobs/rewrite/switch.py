"""Ends a rewrite with --follow: after the request, it ends when no records have arrived for a while."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.state import JobState

# Records of a producer that has just stopped may still be in flight.
IDLE_S: Final = 2.0


class Switch:
    def __init__(self, state: JobState, clock: Callable[[], float] = time.monotonic) -> None:
        self._file: Final = state.directory / "switch"
        self._clock: Final = clock
        self._idle_since: float | None = None

    def request(self) -> None:
        """Request the switch from another process."""
        write_atomically(self._file, "")

    @property
    def is_requested(self) -> bool:
        return self._file.is_file()

    def is_idle(self, ends: Mapping[TopicPartition, int], reached: Mapping[TopicPartition, int]) -> bool:
        """Return True once, and clear the request. `ends` are log end offsets, including open transactions."""
        if ends != reached:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = self._clock()
        if self._clock() - self._idle_since < IDLE_S:
            return False
        self._file.unlink(missing_ok=True)
        return True
