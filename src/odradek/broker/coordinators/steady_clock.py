"""The time by which coordinators go: the wall's, but without its jumps.

A member's session must not end because somebody has set the clock, and an offset's age is counted by a clock that
everybody shares. So time goes as the monotonic clock does, from where the wall stood at the beginning, and bends
towards the wall by so little that no session notices.
"""

from typing import Final

from odradek.base.ports import Clock

BEND_MAX: Final = 0.02


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
            astray_ms = self._clock.wall_ms() - self._now_ms - elapsed_ms
            bend_ms = BEND_MAX * elapsed_ms
            self._now_ms += elapsed_ms + max(-bend_ms, min(bend_ms, astray_ms))
            self._at = at
        return int(self._now_ms)
