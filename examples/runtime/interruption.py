"""Handles Ctrl-C and stop signals between calls to Spark.

An interrupted call to Java breaks its connection, and Spark can then no longer be stopped cleanly.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_signals_interrupt() -> None:
    """Makes every stop signal raise KeyboardInterrupt, as Ctrl-C does."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[Callable[[], None]]:
    """Defers the first stop signal; the returned function raises KeyboardInterrupt once there is one.

    A second signal is not deferred, so that users can stop without waiting for Spark.
    """
    requested = False

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        stop_signals_interrupt()
        # Not print(), which the signal may have interrupted.
        os.write(sys.stderr.fileno(), b"\nstopping\n")

    def raise_if_requested() -> None:
        if requested:
            raise KeyboardInterrupt

    for number in STOP_SIGNALS:
        signal.signal(number, defer)
    try:
        yield raise_if_requested
    finally:
        stop_signals_interrupt()
    raise_if_requested()
