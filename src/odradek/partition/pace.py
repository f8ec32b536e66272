"""Whether a log dir's disk is quick enough to be written from the event loop.

Writes go to the page cache and take microseconds, until the kernel throttles whoever dirties pages faster than the disk
takes them. Then one write may stand for seconds, and with it every heartbeat. A log dir that showed one such write has
its appends done by a thread, until a run of quick ones shows that the disk has caught up.
"""

from typing import Final

SLOW_SECONDS: Final = 0.02
QUICK_SECONDS: Final = 0.002
QUICK_IN_A_ROW: Final = 200


class AppendPace:
    __slots__ = ("_quick_in_a_row", "slow")

    def __init__(self) -> None:
        self.slow = False
        self._quick_in_a_row = 0

    def observe(self, seconds: float) -> None:
        if seconds >= SLOW_SECONDS:
            self.slow = True
            self._quick_in_a_row = 0
        elif self.slow and seconds <= QUICK_SECONDS:
            self._quick_in_a_row += 1
            if self._quick_in_a_row >= QUICK_IN_A_ROW:
                self.slow = False
        else:
            self._quick_in_a_row = 0
