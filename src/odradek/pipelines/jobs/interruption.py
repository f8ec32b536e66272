"""Ctrl-C stops a job after the current batch; a second Ctrl-C stops it at once."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_POLL_S: Final = 0.2


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a stop was requested."""
    requested = False

    def take(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        for one in _SIGNALS:
            signal.signal(one, signal.default_int_handler)
        # Not print(): the signal may have interrupted one.
        os.write(sys.stderr.fileno(), b"\nStopping after this batch. Press Ctrl-C again to stop now.\n")

    before = {one: signal.signal(one, take) for one in _SIGNALS}
    try:
        yield lambda: requested
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def interrupt_on_terminate() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt, so that resources are released. For runs without batches."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def wait(interval_s: float, should_stop: Callable[[], bool]) -> None:
    """Wait for the interval or until `should_stop`."""
    until = time.monotonic() + interval_s
    while not should_stop() and time.monotonic() < until:
        time.sleep(_POLL_S)
