"""Decides from its operations whether the disk of a log dir is fast, slow, stalled or hung. It does no I/O.

Writes go to the page cache and take microseconds, until the kernel throttles a process that dirties pages faster than
the disk writes them back. Then one write in hundreds may block for 200 ms, and every heartbeat with it. After one such
write the disk is slow, and its log dir's appends run in a thread until it has been fast for a minute.

A job in a thread that takes long may be large, or its disk may hang. So it only raises a suspicion: then a probe, the
smallest operation that needs the disk, decides. A stalled disk serves no requests until the probe has ended. If that
takes too long, the disk hangs, and its log dir is lost until the node restarts.
"""

from enum import Enum, auto
from itertools import count
from typing import Final

SLOW_SECONDS: Final = 0.02
# Both are required: between two stalls of a throttled disk there are hundreds of fast small writes.
FAST_WRITES_MIN: Final = 200
FAST_SECONDS_MIN: Final = 60.0

# The age of the oldest job at which a probe starts, and of the probe at which the disk is stalled and hung.
SUSPECT_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 5.0
HUNG_SECONDS: Final = 25.0
# A longer time between two ticks was no time in which the disk could have responded: the process was stopped.
TICK_SECONDS_MAX: Final = 2.0


class Verdict(Enum):
    PROBE = auto()
    """Start a probe, and report its end with `on_probe_end`."""
    STALLED = auto()
    HUNG = auto()


class LogDirHealth:
    __slots__ = (
        "_awake_seconds",
        "_fast_since",
        "_fast_writes",
        "_jobs",
        "_numbers",
        "_probe_began_at",
        "_probe_ended_at",
        "_ticked_at",
        "is_hung",
        "is_slow",
        "is_stalled",
        "is_writing",
        "stays_in_thread",
    )

    def __init__(self, *, stays_in_thread: bool = False) -> None:
        """`stays_in_thread`: the node can do without this log dir, so its disk must never block the event loop."""
        self.stays_in_thread = stays_in_thread
        self.is_slow = stays_in_thread
        """Whether appends have to run in the log dir's thread."""
        self.is_stalled = False
        self.is_hung = False
        self.is_writing = False
        """Set during a write on the event loop, for the thread that watches the loop."""
        self._fast_writes = 0
        self._fast_since = 0.0
        # The time during which the process ran, by the ticks.
        self._awake_seconds = 0.0
        self._ticked_at: float | None = None
        self._numbers = count()
        # The start of each running job, the oldest first.
        self._jobs: dict[int, float] = {}
        self._probe_began_at: float | None = None
        self._probe_ended_at = 0.0

    def on_write(self, seconds: float, now: float) -> None:
        """A write of records has just ended that took this long."""
        if seconds >= SLOW_SECONDS:
            self.is_slow = True
            self._fast_writes = 0
            self._fast_since = now
        elif self.is_slow and not self.stays_in_thread:
            self._fast_writes += 1
            if self._fast_writes >= FAST_WRITES_MIN and now - self._fast_since >= FAST_SECONDS_MIN:
                self.is_slow = False

    def on_job_start(self) -> int:
        """A job has been handed to a thread. Returns its number for `on_job_end`."""
        number = next(self._numbers)
        self._jobs[number] = self._awake_seconds
        return number

    def on_job_end(self, number: int) -> None:
        del self._jobs[number]

    def tick(self, now: float) -> Verdict | None:
        """Called every second."""
        if self._ticked_at is not None:
            self._awake_seconds += min(now - self._ticked_at, TICK_SECONDS_MAX)
        self._ticked_at = now
        if self.is_hung:
            return None
        if self._probe_began_at is not None:
            return self._judge_probe(self._awake_seconds - self._probe_began_at)
        oldest = next(iter(self._jobs.values()), None)
        if oldest is None or self._awake_seconds - max(oldest, self._probe_ended_at) < SUSPECT_SECONDS:
            return None
        self._probe_began_at = self._awake_seconds
        return Verdict.PROBE

    def _judge_probe(self, seconds: float) -> Verdict | None:
        if seconds >= HUNG_SECONDS:
            self.is_stalled = self.is_hung = True
            return Verdict.HUNG
        if seconds >= STALLED_SECONDS and not self.is_stalled:
            self.is_stalled = True
            return Verdict.STALLED
        return None

    def on_probe_end(self) -> None:
        """The disk has responded, with whatever result. After the verdict that it hangs, this changes nothing."""
        self._probe_began_at = None
        self._probe_ended_at = self._awake_seconds
        self.is_stalled = self.is_hung
