"""Ctrl-C, taken up between batches: the first one asks to stop, a second one does not wait."""

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
    """Yields what tells whether one has come."""
    requested = False

    def take(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        for one in _SIGNALS:
            signal.signal(one, signal.default_int_handler)
        # Not print: the signal may have come in the middle of one.
        os.write(sys.stderr.fileno(), b"\nStopping after this batch. Press Ctrl-C again to stop now.\n")

    before = {one: signal.signal(one, take) for one in _SIGNALS}
    try:
        yield lambda: requested
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def interrupt_on_terminate() -> Iterator[None]:
    """For what has no batches: SIGTERM is as Ctrl-C, so that what was begun is put away."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def wait(interval_s: float, should_stop: Callable[[], bool]) -> None:
    """Until there may be something new, or stopping is asked for."""
    until = time.monotonic() + interval_s
    while not should_stop() and time.monotonic() < until:
        time.sleep(_POLL_S)
