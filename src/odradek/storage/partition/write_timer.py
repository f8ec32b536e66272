"""Measures how long the disk took for a write.

A write during which the thread never waited was interrupted by other threads or processes. It says nothing of the disk.
"""

from typing import Final

from odradek.base.ports import Clock
from odradek.storage.log.log_dir_health import SLOW_SECONDS
from odradek.storage.log.partition_log import PartitionLog


class WriteTimer:
    __slots__ = ("_began_at", "_clock", "_log", "_waits")

    def __init__(self, clock: Clock, log: PartitionLog) -> None:
        self._clock: Final = clock
        self._log: Final = log
        self._waits: Final = log.thread_waits()
        self._began_at: Final = clock.monotonic()

    def seconds(self) -> float:
        """How long the write took; 0 if the thread only had to share the processor. Call it in the writing thread."""
        seconds = self._clock.monotonic() - self._began_at
        return seconds if seconds < SLOW_SECONDS or self._log.thread_waits() != self._waits else 0.0
