"""One slow write moves appends to a thread; only many fast writes over some time move them back."""

from odradek.storage.partition.append_latency import FAST_SECONDS_MIN, FAST_WRITES_MIN, SLOW_SECONDS, AppendLatency

# The delay of a thread that waits for the GIL: the disk is fast nevertheless.
QUICK_SECONDS = SLOW_SECONDS / 2


def test_fast_writes_stay_on_the_event_loop() -> None:
    pace = AppendLatency()
    for number in range(1000):
        pace.observe(QUICK_SECONDS, number)
    assert not pace.is_slow


def test_one_slow_write_moves_appends_to_a_thread() -> None:
    pace = AppendLatency()
    pace.observe(SLOW_SECONDS, 1.0)
    assert pace.is_slow


def test_return_to_the_event_loop_needs_many_fast_writes() -> None:
    pace = AppendLatency()
    pace.observe(SLOW_SECONDS, 0.0)
    later = 10 * FAST_SECONDS_MIN
    for _ in range(FAST_WRITES_MIN - 1):
        pace.observe(QUICK_SECONDS, later)
    assert pace.is_slow
    pace.observe(QUICK_SECONDS, later)
    assert not pace.is_slow


def test_return_to_the_event_loop_needs_time() -> None:
    pace = AppendLatency()
    pace.observe(SLOW_SECONDS, 10.0)
    for _ in range(10 * FAST_WRITES_MIN):
        pace.observe(QUICK_SECONDS, 10.0 + FAST_SECONDS_MIN * 0.99)
    assert pace.is_slow
    pace.observe(QUICK_SECONDS, 10.0 + FAST_SECONDS_MIN)
    assert not pace.is_slow


def test_slow_write_restarts_the_count_of_fast_writes() -> None:
    pace = AppendLatency()
    pace.observe(SLOW_SECONDS, 0.0)
    later = 10 * FAST_SECONDS_MIN
    for _ in range(FAST_WRITES_MIN - 1):
        pace.observe(QUICK_SECONDS, later)
    pace.observe(SLOW_SECONDS, later)
    for _ in range(FAST_WRITES_MIN + 1):
        pace.observe(QUICK_SECONDS, later)
    assert pace.is_slow
    pace.observe(QUICK_SECONDS, later + FAST_SECONDS_MIN)
    assert not pace.is_slow
