"""The rate of throttled replicas, measured like Kafka over windows, the first of which counts as a full one."""

from math import inf

import pytest

from odradek.core.replication.throttle import ReplicationThrottle, SampledRate, names_replica

KILOBYTE = 1000


def throttle(limit: float = 100.0) -> ReplicationThrottle:
    new = ReplicationThrottle(window_count=11, window_seconds=1.0)
    new.bytes_per_second_max = limit
    return new


@pytest.mark.parametrize(
    ("throttled", "means"),
    [
        (frozenset(), False),
        (frozenset({"*"}), True),
        (frozenset({"3:1", "4:2"}), True),
        (frozenset({"1:3", "3:2", "31:1", "3:11"}), False),
    ],
)
def test_throttled_replicas_config(throttled: frozenset[str], means: bool) -> None:
    assert names_replica(throttled, 3, 1) is means


def test_first_window_counts_as_a_full_window() -> None:
    rate = SampledRate(11, 1.0)
    assert rate.per_second(5.0) == 0.0
    rate.count(100, 5.0)
    assert rate.per_second(5.0) == rate.per_second(5.9) == 100.0
    assert rate.per_second(7.0) == 50.0


def test_expired_windows_do_not_count() -> None:
    rate = SampledRate(2, 1.0)
    rate.count(100, 0.0)
    rate.count(60, 1.0)
    assert rate.per_second(1.999) == pytest.approx(160 / 1.999)
    assert rate.per_second(2.0) == 60.0
    assert rate.per_second(3.0) == 0.0


def test_steady_rate_is_measured_correctly() -> None:
    rate = SampledRate(11, 1.0)
    for step in range(1000):
        rate.count(10, step / 10)
    assert rate.per_second(100.0) == pytest.approx(100.0, rel=0.02)


def test_no_limit_means_no_throttling() -> None:
    unlimited = ReplicationThrottle(window_count=11, window_seconds=1.0)
    unlimited.count(1 << 40, 0.0)
    assert unlimited.bytes_per_second_max == inf
    assert not unlimited.is_exceeded(0.0)
    assert unlimited.frees_at(0.0) == 0.0


def test_large_response_is_followed_by_a_pause() -> None:
    held = throttle(100)
    assert not held.is_exceeded(0.0)
    held.count(500, 0.0)
    assert held.is_exceeded(4.9)
    assert held.frees_at(1.0) == 5.0
    assert not held.is_exceeded(5.0)
    assert held.frees_at(5.0) == 5.0


def test_pause_is_at_most_the_retained_windows() -> None:
    held = throttle(1)
    held.count(1_000_000, 3.0)
    assert held.frees_at(3.0) == 14.0
    assert not held.is_exceeded(14.0)
    held = throttle(0)
    held.count(1, 3.0)
    assert held.frees_at(4.0) == 14.0


def test_new_limit_applies_immediately() -> None:
    held = throttle(inf)
    held.count(500, 0.0)
    held.bytes_per_second_max = 100
    assert held.is_exceeded(1.0)
    held.bytes_per_second_max = 1000
    assert not held.is_exceeded(1.0)


@pytest.mark.parametrize("chunk", [10, 100, 1000])
def test_throttled_copying_stays_within_the_limit(chunk: int) -> None:
    held = throttle(100)
    now, copied = 0.0, 0
    while copied < 10 * KILOBYTE:
        now = held.frees_at(now)
        held.count(chunk, now)
        copied += chunk
        now += 0.001
    assert now == pytest.approx(copied / 100, rel=0.15, abs=chunk / 100)


def test_rate_is_read_while_another_thread_counts() -> None:
    rate = SampledRate(window_count=2, window_seconds=1.0)

    class Counted(int):
        def __radd__(self, other: int) -> int:
            rate.count(5, 12.5)
            return int(self) + other

    rate.count(10, 10.0)
    rate.count(10, 11.0)
    for sample in rate._samples:
        sample.total = Counted(10)
    assert rate.per_second(11.2) > 0
