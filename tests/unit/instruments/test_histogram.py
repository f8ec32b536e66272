"""Histogram: every observation is counted, and quantiles are as precise as the buckets."""

from math import isnan

from hypothesis import given
from hypothesis import strategies as some

from odradek.instruments.histogram import BUCKETS, WINDOWS_MAX, Histogram, quantiles

DURATIONS = some.lists(some.floats(0, 100_000), min_size=1, max_size=200)


@given(DURATIONS, some.floats(0, 1))
def test_quantile_is_near_the_duration_of_that_rank(durations: list[float], quantile: float) -> None:
    histogram = Histogram()
    for duration in durations:
        histogram.observe(duration)
    rank = min(len(durations) - 1, int(quantile * len(durations)))
    expected = sorted(durations)[rank]
    (found,) = quantiles([histogram], [quantile])
    assert abs(found - expected) <= expected / 8 + 1e-6
    assert histogram.count == len(durations)
    assert abs(histogram.sum_seconds - sum(durations)) < 1e-3


def test_quantiles_of_several_histograms() -> None:
    few, many = Histogram(), Histogram()
    few.observe(10)
    many.observe(0.001, 99)
    middle, last = quantiles([few, many], [0.5, 0.995])
    assert 0.0009 < middle < 0.0011
    assert 9 < last < 11
    assert many.count == 99


def test_quantiles_cover_only_the_last_minutes() -> None:
    histogram = Histogram()
    assert isnan(quantiles([histogram], [0.5])[0])
    histogram.observe(100)
    for _ in range(WINDOWS_MAX):
        histogram.mark()
        histogram.observe(0.001)
    assert quantiles([histogram], [0.99])[0] < 0.002
    assert histogram.count == WINDOWS_MAX + 1
    for _ in range(WINDOWS_MAX):
        histogram.mark()
    assert isnan(quantiles([histogram], [0.5])[0])


def test_any_duration_can_be_observed() -> None:
    histogram = Histogram()
    histogram.observe(7 * 86_400)
    assert len(histogram.counts) == BUCKETS
    assert quantiles([histogram], [1.0])[0] > 6 * 86_400
