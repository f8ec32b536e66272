"""How long a test waits, in time in which the machine works.

Virtual machines are stopped and moved now and then, for a minute and more: nobody whom a test waits for could have done
anything meanwhile.
"""

import os
import time
from pathlib import Path
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


def withheld_seconds() -> float:
    """For how long, since the machine started, somebody who wanted to compute or to reach the disk was kept waiting."""
    return sum(_stalled_seconds(Path("/proc/pressure", resource)) for resource in ("cpu", "io")) + _stolen_seconds()


def _stalled_seconds(pressure: Path) -> float:
    """Kernels that do not count it have withheld nothing that could be excused."""
    if not pressure.exists():
        return 0.0
    some = pressure.read_text().splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6


def _stolen_seconds() -> float:
    """Which the processors of a virtual machine were not given; whoever runs on one then does not count as waiting."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    all_processors = stat.read_text().splitlines()[0].split()
    return int(all_processors[8]) / os.sysconf("SC_CLK_TCK")
