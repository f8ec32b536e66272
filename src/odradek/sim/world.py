"""One simulation: virtual time, the network, its computers, and the sources of randomness."""

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Final, TextIO

from odradek.sim.computer import Computer
from odradek.sim.network import Network
from odradek.sim.process import Process
from odradek.sim.scheduler import Scheduler
from odradek.sim.trace import Trace


class World:
    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.seed: Final = seed
        self.scheduler: Final = Scheduler()
        self.trace: Final = Trace(self.scheduler, keep=keep_trace)
        self.network: Final = Network(self.scheduler, self.trace, self.random("network"))
        self.computers: Final[dict[str, Computer]] = {}

    def random(self, purpose: str) -> Random:
        """One source per purpose, so that leaving out a fault does not change what clients write."""
        return Random(f"{self.seed}/{purpose}")

    @property
    def now(self) -> float:
        return self.scheduler.now

    def add_computer(self, name: str) -> Computer:
        computer = Computer(name, self.scheduler, self.trace, self.network, self.random)
        self.computers[name] = computer
        return computer

    def run_for(self, seconds: float, finished: Callable[[], bool] = lambda: False) -> bool:
        return self.scheduler.run(self.now + seconds, finished)

    @property
    def unexpected(self) -> list[tuple[str, str]]:
        """Unexpected errors by computer."""
        return [
            (computer.name, what)
            for computer in self.computers.values()
            for process in computer.past_processes
            for what in process.unexpected
        ]

    def close(self) -> None:
        """Ends all processes and drops all references to them."""
        for computer in self.computers.values():
            for process in computer.past_processes:
                process.kill()
                process.close_coroutines()
        self.scheduler.clear()
        self.network.clear()
        self.computers.clear()


class _TraceHandler(logging.Handler):
    """Adds log records to the trace; a record with a traceback is an unexpected error."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world: Final = world

    def emit(self, record: logging.LogRecord) -> None:
        running = self._world.scheduler.running
        if not isinstance(running, Process) or not running.is_alive:
            return
        if record.exc_info:
            running.note_unexpected(logging.Formatter().format(record))
        elif record.levelno >= logging.WARNING:
            running.trace.major(running.name, f"logs: {record.getMessage()}")
        else:
            running.trace.minor(running.name, f"logs: {record.getMessage()}")


def _on_warning(
    world: World,
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A coroutine that was never awaited is an error, unless its process died first."""
    running = world.scheduler.running
    if isinstance(running, Process) and running.is_alive:
        running.note_unexpected(f"{category.__name__}: {message}")


@contextmanager
def simulated_world(seed: int, *, keep_trace: bool = False) -> Iterator[World]:
    """Creates the only world of this process and closes it afterwards."""
    world = World(seed, keep_trace=keep_trace)
    logger = logging.getLogger("odradek")
    before = logger.level, logger.propagate, logger.handlers
    unraisable = sys.unraisablehook
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [_TraceHandler(world)]
    # The garbage collector runs finalizers at times that differ between runs. Existing objects are frozen, so that the
    # collection at the end skips them.
    gc.disable()
    gc.freeze()
    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = partial(_on_warning, world)
        try:
            yield world
        finally:
            # Coroutines of dead processes may still await something when they are closed.
            sys.unraisablehook = lambda _: None
            world.close()
            gc.collect()
            gc.unfreeze()
            gc.enable()
            sys.unraisablehook = unraisable
            logger.level, logger.propagate, logger.handlers = before
