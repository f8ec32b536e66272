"""Rates, token buckets and throttle times beside Apache Kafka's own classes."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.core.quotas.rates import RateWindows, TokenBucket
from tests.kafka.java_program import JavaProgram

START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def rates(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "Rates") as program:
        yield program


def events(seed: int) -> list[tuple[int, int]]:
    """Times in milliseconds, and values: bursts, pauses of windows, and pauses after which everything has expired."""
    chosen = random.Random(seed)
    now = START_MS
    found = []
    for _ in range(300):
        now += chosen.choice((0, 1, chosen.randrange(300), chosen.randrange(3000), chosen.randrange(20_000)))
        found.append(
            (now, chosen.choice((1, chosen.randrange(1000), chosen.randrange(30_000), -chosen.randrange(500))))
        )
    return found


@pytest.mark.parametrize(
    ("windows", "window_seconds", "limit"), [(11, 1, 1000.0), (11, 1, 0.5), (3, 2, 700.0), (1, 1, 9.0)]
)
def test_rates_and_throttle_times_equal_those_of_kafka(
    rates: JavaProgram, windows: int, window_seconds: int, limit: float
) -> None:
    for seed in range(5):
        rates.request("new", "rate", windows, window_seconds, limit)
        measured: RateWindows | None = None
        for now, value in events(seed):
            measured = measured or RateWindows(windows, window_seconds * 1000, now)
            measured.record(value, now)
            (line,) = rates.request("record", now, value)
            rate, delay_ms = line.split()
            assert (measured.rate(now), measured.delay_ms(limit, now)) == (float(rate), int(delay_ms))


@pytest.mark.parametrize(("windows", "window_seconds", "limit"), [(11, 1, 2.0), (11, 1, 0.3), (3, 2, 50.0)])
def test_token_buckets_and_throttle_times_equal_those_of_kafka(
    rates: JavaProgram, windows: int, window_seconds: int, limit: float
) -> None:
    for seed in range(5):
        rates.request("new", "bucket", windows, window_seconds, limit)
        bucket: TokenBucket | None = None
        for now, value in events(seed):
            bucket = bucket or TokenBucket(windows, window_seconds * 1000, now)
            count = max(0, value) % 100
            bucket.withdraw(count, limit, now)
            (line,) = rates.request("record", now, count)
            tokens, delay_ms = line.split()
            assert bucket.tokens(limit, now) == pytest.approx(float(tokens))
            assert bucket.delay_ms(limit, now) == int(delay_ms)
