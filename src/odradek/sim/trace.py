"""The events of a run and a hash over all of them, which is the same for all runs of a seed.

The lines are kept only on request; a run can always be repeated.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from odradek.sim.scheduler import Scheduler

_LINES_AT_ONCE: Final = 200


class Event(NamedTuple):
    seconds: float
    who: str
    what: str
    # Major: faults, processes, requests and responses of clients. Minor: TCP segments, disk writes, timers.
    is_major: bool

    def __str__(self) -> str:
        return f"{self.seconds:12.6f}  {self.who:<24}  {self.what}"


class Trace:
    def __init__(self, scheduler: Scheduler, *, keep: bool = False) -> None:
        self._scheduler: Final = scheduler
        self._hash: Final = blake2b(digest_size=16)
        # Not hashed yet: many small pieces take longer than a large one.
        self._lines: Final[list[str]] = []
        self.events: Final[list[Event] | None] = [] if keep else None

    def minor(self, who: str, what: str) -> None:
        self._note(who, what, False)

    def major(self, who: str, what: str) -> None:
        self._note(who, what, True)

    def _note(self, who: str, what: str, is_major: bool) -> None:
        scheduler = self._scheduler
        # The number of callbacks so far makes every difference in scheduling a difference in the hash.
        self._lines.append(f"{scheduler.now!r} {scheduler.turns} {who} {what}\n")
        if len(self._lines) >= _LINES_AT_ONCE:
            self._hash_lines()
        if self.events is not None:
            self.events.append(Event(scheduler.now, who, what, is_major))

    def hash(self) -> str:
        self._hash_lines()
        return self._hash.hexdigest()

    def _hash_lines(self) -> None:
        self._hash.update("".join(self._lines).encode())
        self._lines.clear()
