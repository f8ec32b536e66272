"""Virtual time: everything that is about to happen in a simulation, in one order, on one thread.

Time stands still while something happens and then jumps to whatever comes next. Things due at the same instant happen
in the order in which they were asked for, so that nothing depends on addresses, hashes or the speed of the machine.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

# A simulation in which so much happens while no time passes will never end.
TURNS_AT_ONE_INSTANT_MAX: Final = 200_000


class Livelock(Exception):
    """Time does not pass any more."""


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
    """What the scheduler has to know of a process: whether it lives, and whether it can be reached just now."""

    def __init__(self) -> None:
        self.is_alive = True
        self.busy_until = 0.0
        # What came while the process was busy, in order.
        self.deferred: Final[deque[Turn]] = deque()

    def run(self, turn: Turn) -> None:
        raise NotImplementedError


class Scheduler:
    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0
        # Whose code is just running; None: the world's own.
        self.running: Runnable | None = None
        self._ready: Final[deque[Turn]] = deque()
        self._timers: Final[list[tuple[float, int, Turn]]] = []
        self._order: Final = count()

    def soon(self, turn: Turn) -> None:
        self._ready.append(turn)

    def at(self, when: float, turn: Turn) -> None:
        heappush(self._timers, (when, next(self._order), turn))

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Turn:
        """For the world itself: a segment that arrives, a fault that strikes."""
        turn = Turn(None, when, callback, args)
        heappush(self._timers, (when if when > self.now else self.now, next(self._order), turn))
        return turn

    def call_after(self, seconds: float, callback: Callable[..., object], *args: Any) -> Turn:
        return self.call_at(self.now + seconds, callback, *args)

    def run(self, until: float, finished: Callable[[], bool] = lambda: False) -> bool:
        """Lets things happen up to a time, or until `finished`; returns whether it is. The time is then `until`,
        unless it finished before."""
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
            # As all that is ready: a timer that is set again for the same instant is no better than a loop.
            ready.append(turn)

    def clear(self) -> None:
        """Nothing of all that will happen."""
        self._ready.clear()
        self._timers.clear()

    def _defer(self, process: Runnable, turn: Turn) -> None:
        if not process.deferred:
            self.call_at(process.busy_until, self._resume, process)
        process.deferred.append(turn)

    def _resume(self, process: Runnable) -> None:
        if process.busy_until > self.now:
            # It was held up once more.
            self.call_at(process.busy_until, self._resume, process)
            return
        self._ready.extendleft(reversed(process.deferred))
        process.deferred.clear()
