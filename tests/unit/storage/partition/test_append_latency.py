"""One slow write moves a log dir to its thread; only many quick ones, for a while, bring it back."""

from odradek.storage.partition.append_latency import FAST_SECONDS_MIN, FAST_WRITES_MIN, SLOW_SECONDS, AppendLatency

# What a thread needs that waits for the interpreter: the disk is quick all the same.
QUICK_SECONDS = SLOW_SECONDS / 2


def test_quick_writes_stay_on_the_loop() -> None:
    pace = AppendLatency()
    for number in range(1000):
        pace.observe(QUICK_SECONDS, number)
    assert not pace.is_slow


def test_one_slow_write_is_enough() -> None:
    pace = AppendLatency()
    pace.observe(SLOW_SECONDS, 1.0)
    assert pace.is_slow


def test_the_way_back_takes_many_quick_writes() -> None:
    pace = AppendLatency()
    pace.observe(SLOW_SECONDS, 0.0)
    later = 10 * FAST_SECONDS_MIN
    for _ in range(FAST_WRITES_MIN - 1):
        pace.observe(QUICK_SECONDS, later)
    assert pace.is_slow
    pace.observe(QUICK_SECONDS, later)
    assert not pace.is_slow


def test_the_way_back_takes_a_while() -> None:
    pace = AppendLatency()
    pace.observe(SLOW_SECONDS, 10.0)
    for _ in range(10 * FAST_WRITES_MIN):
        pace.observe(QUICK_SECONDS, 10.0 + FAST_SECONDS_MIN * 0.99)
    assert pace.is_slow
    pace.observe(QUICK_SECONDS, 10.0 + FAST_SECONDS_MIN)
    assert not pace.is_slow


def test_another_slow_write_begins_it_anew() -> None:
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
