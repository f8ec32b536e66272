"""Whether a log dir's disk is quick enough to be written from the event loop.

Writes go to the page cache and take microseconds, until the kernel throttles whoever dirties pages faster than the disk
takes them. Then one write in hundreds may stand for a fifth of a second, and with it every heartbeat. A log dir that
showed one such write has its appends done by a thread, until a while of quick ones shows that the disk has caught up.
"""

from typing import Final

SLOW_SECONDS: Final = 0.02
# Both without a slow one among them: small writes come by the hundred between two pauses of a throttled disk.
QUICK_IN_A_ROW: Final = 200
QUICK_FOR_SECONDS: Final = 1.0


class AppendLatency:
    __slots__ = ("_quick_in_a_row", "_quick_since", "is_slow")

    def __init__(self) -> None:
        self.is_slow = False
        self._quick_in_a_row = 0
        self._quick_since = 0.0

    def observe(self, seconds: float, now: float) -> None:
        """A write that took so long has just ended."""
        if seconds >= SLOW_SECONDS:
            self.is_slow = True
            self._quick_in_a_row = 0
            self._quick_since = now
        elif self.is_slow:
            self._quick_in_a_row += 1
            if self._quick_in_a_row >= QUICK_IN_A_ROW and now - self._quick_since >= QUICK_FOR_SECONDS:
                self.is_slow = False
