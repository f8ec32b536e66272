"""A thread that keeps the interpreter busy delays a node's event loop only briefly."""

import statistics
import sys
import threading
import time

from odradek.node.run import SWITCH_INTERVAL_SECONDS

DEFAULT_SECONDS = 0.005
TURNS = 200
WAIT_SECONDS = 0.0005


def test_waiting_thread_gets_the_interpreter_from_a_busy_one_milliseconds_sooner_than_by_default() -> None:
    """Other processes delay both alike, because turns with both intervals alternate."""
    delays: dict[float, list[float]] = {SWITCH_INTERVAL_SECONDS: [], DEFAULT_SECONDS: []}
    former = sys.getswitchinterval()
    is_over = False

    def keep_busy() -> None:
        while not is_over:
            sum(range(100))

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        for _ in range(TURNS):
            for interval_seconds, of_interval in delays.items():
                sys.setswitchinterval(interval_seconds)
                began = time.perf_counter()
                time.sleep(WAIT_SECONDS)
                of_interval.append(time.perf_counter() - began - WAIT_SECONDS)
    finally:
        is_over = True
        busy.join()
        sys.setswitchinterval(former)
    gain_seconds = statistics.median(delays[DEFAULT_SECONDS]) - statistics.median(delays[SWITCH_INTERVAL_SECONDS])
    assert gain_seconds > 0.003, delays
