"""Timeouts of tests that do not count the time in which the computer was paused.

Virtual machines are sometimes paused or migrated for a minute or more, and no process makes progress meanwhile.
"""

import os
import time
from pathlib import Path
from typing import Final

_STEP_S_MAX: Final = 1.0
"""A longer gap between two checks means that the process was paused."""


class Patience:
    def __init__(self, seconds_max: float) -> None:
        self.seconds_max: Final = seconds_max
        self._used_s = 0.0
        self._looked_at = time.monotonic()

    def is_over(self) -> bool:
        """Must be called every few milliseconds."""
        now = time.monotonic()
        self._used_s += min(now - self._looked_at, _STEP_S_MAX)
        self._looked_at = now
        return self._used_s > self.seconds_max


def withheld_seconds() -> float:
    """Seconds since boot in which some process waited for CPU or disk."""
    return sum(_stalled_seconds(Path("/proc/pressure", resource)) for resource in ("cpu", "io")) + _stolen_seconds()


def _stalled_seconds(pressure: Path) -> float:
    """Stall time of one resource; 0 if the kernel does not report it."""
    if not pressure.exists():
        return 0.0
    some = pressure.read_text().splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6


def _stolen_seconds() -> float:
    """Time stolen by the hypervisor, which the kernel does not count as waiting."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    all_processors = stat.read_text().splitlines()[0].split()
    return int(all_processors[8]) / os.sysconf("SC_CLK_TCK")
