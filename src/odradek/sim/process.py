"""One run of a program on a computer: its event loop, and its end, at any await or during a disk write.

No callback of a dead process ever runs again. End listeners release its resources.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from odradek.sim.scheduler import Runnable, Scheduler, Turn
from odradek.sim.trace import Trace

if TYPE_CHECKING:
    from odradek.sim.loop import VirtualLoop


_EXIT_BY_ERROR: Final = 70


class ProcessDied(BaseException):
    """Unwinds the stack of a process that died. Catching it has no effect."""


class Countdown:
    """Runs an action after a number of ticks: a crash can happen between any two steps."""

    __slots__ = ("_action", "_left", "is_counting")

    def __init__(self) -> None:
        self._left = 0
        self._action: Callable[[], None] | None = None
        # Read before every callback and disk operation, to save a call.
        self.is_counting = False

    def start(self, count: int, action: Callable[[], None]) -> None:
        self._left = count
        self._action = action
        self.is_counting = True

    def tick(self) -> None:
        if self._action is None:
            return
        self._left -= 1
        if self._left <= 0:
            action, self._action = self._action, None
            self.is_counting = False
            action()


class Process(Runnable):
    def __init__(self, name: str, scheduler: Scheduler, trace: Trace) -> None:
        super().__init__()
        self.name: Final = name
        self.scheduler: Final = scheduler
        self.trace: Final = trace
        self.loop: VirtualLoop
        # Whole seconds in which not even its threads run, as after SIGSTOP.
        self.paused_until = 0.0
        self.step_countdown: Final = Countdown()
        self.disk_countdown: Final = Countdown()
        self.sync_countdown: Final = Countdown()
        self.exit_code: int | None = None
        # Uncaught errors, and errors that the node logged with a traceback.
        self.unexpected: Final[list[str]] = []
        # How long the current callback takes.
        self._overtime = 0.0
        self._end_listeners: Final[list[Callable[[bool], None]]] = []
        self._unfinished: list[asyncio.Task[Any]] = []

    @property
    def now(self) -> float:
        return self.scheduler.now + self._overtime

    def run(self, turn: Turn) -> None:
        if self.step_countdown.is_counting:
            self.step_countdown.tick()
            if not self.is_alive:
                return
        callback, context, scheduler = turn.callback, turn.context, self.scheduler
        assert callback is not None
        assert context is not None
        scheduler.running = self
        asyncio._set_running_loop(self.loop)
        try:
            context.run(callback, *turn.args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not end the other processes
            self.loop.call_exception_handler({"message": "error in a callback", "exception": error, "handle": turn})
        finally:
            asyncio._set_running_loop(None)
            scheduler.running = None
            if self._overtime:
                self.busy_until = max(self.busy_until, self.now)
                self._overtime = 0.0

    def add_delay(self, seconds: float) -> None:
        """Makes the current callback take longer and block the process."""
        self._overtime += seconds

    def pause(self, seconds: float) -> None:
        """Like SIGSTOP and SIGCONT."""
        self.paused_until = max(self.paused_until, self.scheduler.now + seconds)
        self.busy_until = max(self.busy_until, self.paused_until)

    def begin(self, main: Coroutine[Any, Any, int]) -> None:
        """Runs the program; the process exits with what it returns."""

        async def run_main() -> None:
            try:
                code = await main
            except Exception as error:  # noqa: BLE001 - the process ends with it, as a real one does
                self.note_unexpected("".join(traceback.format_exception(error)))
                code = _EXIT_BY_ERROR
            self.exit(code)

        def start() -> None:
            self.loop.create_task(run_main())
            self.loop.find_silent_tasks()

        self.scheduler.soon(Turn(self, self.scheduler.now, start, ()))

    def add_end_listener(self, listener: Callable[[bool], None]) -> None:
        """`listener` receives whether the computer lost power."""
        self._end_listeners.append(listener)

    def exit(self, code: int) -> None:
        self.exit_code = code
        self.trace.major(self.name, f"exits with {code}")
        self._end(power_lost=False)

    def kill(self, *, power_lost: bool = False) -> None:
        """Ends the process at once, without running any `finally`."""
        self._end(power_lost=power_lost)

    def _end(self, *, power_lost: bool) -> None:
        if not self.is_alive:
            return
        self.is_alive = False
        self.deferred.clear()
        # Kept until the simulation is over: a coroutine that is thrown away runs its `finally` blocks.
        self._unfinished = self.loop.unfinished_tasks()
        for listener in self._end_listeners:
            listener(power_lost)

    def close_coroutines(self) -> None:
        """Closes the coroutines after the simulation; their `finally` blocks see a dead process."""
        for task in self._unfinished:
            coroutine = task.get_coro()
            assert isinstance(coroutine, CoroutineType)
            try:
                coroutine.close()
            except (RuntimeError, ProcessDied):
                # It awaited something or used its disk.
                continue
        self._unfinished.clear()
        self.deferred.clear()

    def note_unexpected(self, what: str) -> None:
        self.unexpected.append(what)
        self.trace.major(self.name, f"UNEXPECTED: {what}")
