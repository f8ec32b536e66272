"""Ctrl-C and the stop signals, taken up between calls to Spark instead of in their middle.

A call to Java that is cut off leaves its connection, and with it the clean stop, in disarray.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_signals_interrupt() -> None:
    """Let every stop signal do what Ctrl-C does: raise KeyboardInterrupt."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[Callable[[], None]]:
    """Hold the first stop signal back; the function given raises KeyboardInterrupt once one has come.

    A second signal is not held back: whoever insists shall not wait for Spark.
    """
    requested = False

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        stop_signals_interrupt()
        # Not print: the signal may have come in the middle of one.
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
