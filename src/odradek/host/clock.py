"""The clocks of this machine."""

import time


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
