"""How long a test waits, in time in which the machine works.

Virtual machines are stopped and moved now and then, for a minute and more: nobody whom a test waits for could have done
anything meanwhile.
"""

import time
from typing import Final

_STEP_S_MAX: Final = 1.0
"""Whoever looks less often than that was not let to."""


class Patience:
    def __init__(self, seconds_max: float) -> None:
        self.seconds_max: Final = seconds_max
        self._used_s = 0.0
        self._looked_at = time.monotonic()

    def is_over(self) -> bool:
        """To be asked every few milliseconds."""
        now = time.monotonic()
        self._used_s += min(now - self._looked_at, _STEP_S_MAX)
        self._looked_at = now
        return self._used_s > self.seconds_max
