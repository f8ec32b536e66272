"""The clock of coordinators: the wall clock without its jumps.

A session must not expire because the wall clock was set, but the age of an offset is measured by the wall clock. So
this clock starts at the wall clock's time, advances with the monotonic clock, and approaches the wall clock too slowly
to affect a session.
"""

from typing import Final

from odradek.base.ports import Clock

ADJUSTMENT_RATIO_MAX: Final = 0.02


class SteadyClock:
    __slots__ = ("_at", "_clock", "_now_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._at = clock.monotonic()
        self._now_ms = float(clock.wall_ms())

    def now_ms(self) -> int:
        at = self._clock.monotonic()
        elapsed_ms = (at - self._at) * 1000
        if elapsed_ms > 0:
            difference_ms = self._clock.wall_ms() - self._now_ms - elapsed_ms
            adjustment_max_ms = ADJUSTMENT_RATIO_MAX * elapsed_ms
            self._now_ms += elapsed_ms + max(-adjustment_max_ms, min(adjustment_max_ms, difference_ms))
            self._at = at
        return int(self._now_ms)
