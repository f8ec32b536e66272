"""A loop that comes late, and one that has nothing to do."""

import pytest

from odradek.instruments.loop_watch import LoopWatch


def test_idle_time_is_the_unused_time_of_the_thread() -> None:
    watch = LoopWatch()
    watch.observe(0.0, 0.0, 5.0)
    watch.observe(1.0, 1.0, 5.25)
    watch.observe(2.0, 2.0, 6.25)
    assert watch.idle_seconds == pytest.approx(0.75)


def test_longest_stall_is_kept_for_one_to_two_minutes() -> None:
    watch = LoopWatch()
    watch.observe(10.0, 10.5, 0.0)
    watch.observe(10.55, 10.5, 0.0)
    assert watch.longest_seconds == 0.5
    watch.mark()
    watch.observe(11.0, 11.25, 0.0)
    assert watch.longest_seconds == 0.5
    watch.mark()
    assert watch.longest_seconds == 0.25
    watch.mark()
    assert watch.longest_seconds == 0.0
    assert watch.stalls.count == 3
