"""Measures how busy the event loop is, and how long it stalls.

A timer calls `observe` periodically with the time at which it was due, the current time, and the processor time that
the loop's thread has used.
"""

from math import exp
from typing import Final

from odradek.instruments.histogram import Histogram

RATIO_SECONDS: Final = 60.0


class LoopWatch:
    def __init__(self) -> None:
        self.stalls: Final = Histogram()
        self.idle_seconds = 0.0
        """Since the first call: the time that the thread did not spend on the processor."""
        self.idle_ratio = 1.0
        """Over about the last minute."""
        # Of the previous minute, and of the current one.
        self._longest_seconds = [0.0, 0.0]
        self._last: tuple[float, float] | None = None

    def observe(self, due: float, now: float, thread_seconds: float) -> None:
        late = max(0.0, now - due)
        self.stalls.observe(late)
        self._longest_seconds[1] = max(self._longest_seconds[1], late)
        if self._last is not None:
            passed, used = now - self._last[0], thread_seconds - self._last[1]
            idle = max(0.0, passed - used)
            self.idle_seconds += idle
            if passed > 0:
                self.idle_ratio += (1 - exp(-passed / RATIO_SECONDS)) * (idle / passed - self.idle_ratio)
        self._last = (now, thread_seconds)

    @property
    def longest_seconds(self) -> float:
        """The longest stall of the current and the previous minute."""
        return max(self._longest_seconds)

    def mark(self) -> None:
        """Called once a minute."""
        self.stalls.mark()
        self._longest_seconds = [self._longest_seconds[1], 0.0]
