"""One slow write moves a log dir to its thread; only a run of quick ones brings it back."""

from odradek.partition.pace import QUICK_IN_A_ROW, QUICK_SECONDS, SLOW_SECONDS, AppendPace


def test_quick_writes_stay_on_the_loop() -> None:
    pace = AppendPace()
    for _ in range(1000):
        pace.observe(QUICK_SECONDS)
    assert not pace.slow


def test_one_slow_write_is_enough() -> None:
    pace = AppendPace()
    pace.observe(SLOW_SECONDS)
    assert pace.slow


def test_the_way_back_is_an_unbroken_run() -> None:
    pace = AppendPace()
    pace.observe(SLOW_SECONDS)
    for _ in range(QUICK_IN_A_ROW - 1):
        pace.observe(QUICK_SECONDS)
    pace.observe(QUICK_SECONDS * 2)
    for _ in range(QUICK_IN_A_ROW - 1):
        pace.observe(QUICK_SECONDS)
    assert pace.slow
    pace.observe(QUICK_SECONDS)
    assert not pace.slow
