"""Virtual time: all callbacks of a simulation, in one order, on one thread.

Time stops while a callback runs and then jumps to the time of the next one. Callbacks due at the same time run in the
order in which they were scheduled, so that nothing depends on addresses, hashes or the speed of the computer.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

# A simulation that runs more callbacks than this at one time will never end.
TURNS_AT_ONE_INSTANT_MAX: Final = 200_000


class Livelock(Exception):
    """Virtual time no longer advances."""


class Turn:
    """One callback that is due: asyncio calls this a handle."""

    __slots__ = ("_when", "args", "callback", "context", "is_cancelled", "process")

    def __init__(
        self,
        process: "Runnable | None",
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None = None,
    ) -> None:
        self.process: Final = process
        self._when: Final = when
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context: Final = copy_context() if context is None and process is not None else context
        self.is_cancelled = False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.is_cancelled


class Runnable:
    """A process as the scheduler sees it: whether it is alive, and until when it is busy."""

    def __init__(self) -> None:
        self.is_alive = True
        self.busy_until = 0.0
        # Callbacks that became due while the process was busy, in order.
        self.deferred: Final[deque[Turn]] = deque()

    def run(self, turn: Turn) -> None:
        raise NotImplementedError


class Scheduler:
    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0
        # The process whose code is running; None: the simulator itself.
        self.running: Runnable | None = None
        self._ready: Final[deque[Turn]] = deque()
        self._timers: Final[list[tuple[float, int, Turn]]] = []
        self._order: Final = count()
        self._places: Final = count()

    def next_place(self) -> int:
        """Orders what the recorders see: later events have higher places, also at the same time."""
        return next(self._places)

    def soon(self, turn: Turn) -> None:
        self._ready.append(turn)

    def at(self, when: float, turn: Turn) -> None:
        heappush(self._timers, (when, next(self._order), turn))

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Turn:
        """Schedules a callback of the simulator itself: the arrival of a segment, a fault."""
        turn = Turn(None, when, callback, args)
        heappush(self._timers, (when if when > self.now else self.now, next(self._order), turn))
        return turn

    def call_after(self, seconds: float, callback: Callable[..., object], *args: Any) -> Turn:
        return self.call_at(self.now + seconds, callback, *args)

    def run(self, until: float, finished: Callable[[], bool] = lambda: False) -> bool:
        """Runs callbacks up to a time, or until `finished` returns True; returns whether it did. The time is then
        `until`, unless it finished before."""
        ready, timers = self._ready, self._timers
        next_ready = ready.popleft
        at_this_instant = 0
        while True:
            while ready:
                turn = next_ready()
                at_this_instant += 1
                if at_this_instant > TURNS_AT_ONE_INSTANT_MAX:
                    raise Livelock(f"{at_this_instant} callbacks at {self.now:.6f} s")
                callback = turn.callback
                if callback is None:
                    continue
                process = turn.process
                if process is None:
                    callback(*turn.args)
                elif process.is_alive:
                    if process.busy_until > self.now or process.deferred:
                        self._defer(process, turn)
                    else:
                        self.turns += 1
                        process.run(turn)
            if finished():
                return True
            if not timers or timers[0][0] > until:
                self.now = max(self.now, until)
                return False
            when, _, turn = heappop(timers)
            if when > self.now:
                self.now = when
                at_this_instant = 0
            # Counts as a ready callback: a timer that is set again for the same time is an endless loop.
            ready.append(turn)

    def clear(self) -> None:
        """Drops all scheduled callbacks."""
        self._ready.clear()
        self._timers.clear()

    def _defer(self, process: Runnable, turn: Turn) -> None:
        if not process.deferred:
            self.call_at(process.busy_until, self._resume, process)
        process.deferred.append(turn)

    def _resume(self, process: Runnable) -> None:
        if process.busy_until > self.now:
            # It has become busy again.
            self.call_at(process.busy_until, self._resume, process)
            return
        self._ready.extendleft(reversed(process.deferred))
        process.deferred.clear()
