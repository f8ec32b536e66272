"""Ends a node whose event loop is blocked by a write to a log dir that the node cannot do without.

No callback of the event loop can find that, so a thread looks at it. It only reports writes that are running all the
time: a busy computer, or a process that was stopped, also delay an event loop.
"""

import threading
from collections.abc import Callable
from typing import Final, Protocol

TICK_SECONDS: Final = 1.0
BLOCKED_SECONDS_MAX: Final = 30.0


class Watched(Protocol):
    @property
    def ticks(self) -> int:
        """Grows every second while the event loop runs."""

    def written_on_loop(self) -> str | None:
        """The log dir to which the event loop is writing at this moment."""


class BlockedLoop:
    def __init__(self, watched: Watched, on_hang: Callable[[str], None]) -> None:
        """`on_hang` is called in the thread, with the log dir."""
        self._watched: Final = watched
        self._on_hang: Final = on_hang
        self._is_over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._watch, name="odradek-blocked-loop", daemon=True)
        self._seen = -1
        self._blocked_seconds = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(TICK_SECONDS):
            log_dir = self.look()
            if log_dir is not None:
                self._on_hang(log_dir)
                return

    def look(self) -> str | None:
        """Called every second. Returns the log dir that has blocked the event loop for too long."""
        ticks, log_dir = self._watched.ticks, self._watched.written_on_loop()
        if ticks != self._seen or log_dir is None:
            self._seen = ticks
            self._blocked_seconds = 0.0
            return None
        self._blocked_seconds += TICK_SECONDS
        return log_dir if self._blocked_seconds >= BLOCKED_SECONDS_MAX else None
