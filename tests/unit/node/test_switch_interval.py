"""A thread that keeps the interpreter busy delays a node's event loop only briefly."""

import statistics
import sys
import threading
import time

from odradek.node.run import SWITCH_INTERVAL_SECONDS

TURNS = 200
WAIT_SECONDS = 0.0005


def test_busy_thread_delays_a_waiting_thread_by_less_than_two_milliseconds() -> None:
    """With Python's default it is five."""
    assert _median_delay_seconds(SWITCH_INTERVAL_SECONDS) < 0.002


def _median_delay_seconds(interval_seconds: float) -> float:
    former = sys.getswitchinterval()
    sys.setswitchinterval(interval_seconds)
    is_over = False

    def keep_busy() -> None:
        while not is_over:
            sum(range(100))

    busy = threading.Thread(target=keep_busy)
    busy.start()
    delays = []
    try:
        for _ in range(TURNS):
            began = time.perf_counter()
            time.sleep(WAIT_SECONDS)
            delays.append(time.perf_counter() - began - WAIT_SECONDS)
    finally:
        is_over = True
        busy.join()
        sys.setswitchinterval(former)
    return statistics.median(delays)
