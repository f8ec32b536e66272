"""Decides whether a log dir's disk is fast enough for appends on the event loop.

Writes go to the page cache and take microseconds, until the kernel throttles a process that dirties pages faster than
the disk writes them back. Then one write in hundreds may block for 200 ms, and every heartbeat with it. After one such
write the log dir's appends run in a thread, until a series of fast writes shows that the disk has caught up.
"""

from typing import Final

SLOW_SECONDS: Final = 0.02
# Both are required: between two stalls of a throttled disk there are hundreds of fast small writes.
FAST_WRITES_MIN: Final = 200
FAST_SECONDS_MIN: Final = 1.0


class AppendLatency:
    __slots__ = ("_fast_since", "_fast_writes", "is_slow")

    def __init__(self) -> None:
        self.is_slow = False
        self._fast_writes = 0
        self._fast_since = 0.0

    def observe(self, seconds: float, now: float) -> None:
        """A write has just ended that took this long."""
        if seconds >= SLOW_SECONDS:
            self.is_slow = True
            self._fast_writes = 0
            self._fast_since = now
        elif self.is_slow:
            self._fast_writes += 1
            if self._fast_writes >= FAST_WRITES_MIN and now - self._fast_since >= FAST_SECONDS_MIN:
                self.is_slow = False
