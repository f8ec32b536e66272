"""Rates and delays: against a naive model, and against values of Apache Kafka's own classes."""

from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.quotas.rates import RateWindows, TokenBucket
from tests.unit.core.quotas.naive_rate import NaiveRate

EVENTS = st.lists(
    st.tuples(st.integers(0, 4000) | st.integers(10_000, 40_000) | st.just(0), st.integers(-500, 5000)), min_size=1
)


@given(EVENTS, st.integers(1, 12), st.sampled_from([1, 250, 1000]))
def test_rate_equals_the_naive_model(events: list[tuple[int, int]], count: int, window_ms: int) -> None:
    now = 1_000_000
    windows, model = RateWindows(count, window_ms, now + events[0][0]), NaiveRate(count, window_ms)
    for number, (pause, value) in enumerate(events):
        now += pause
        windows.record(value, now)
        model.record(value, now)
        if number % 3 != 1:
            assert windows.covered_ms(now) == model.covered_ms(now)
            assert windows.rate(now) == pytest.approx(model.rate(now))
            expected = floor((model.rate(now) - 100) / 100 * model.covered_ms(now) + 0.5)
            assert windows.delay_ms(100, now) == max(0, expected)


# (milliseconds since the start, bytes, rate and delay at a limit of 1000 per second), recorded from Kafka 4.3.1 with
# tests/kafka/java/Rates.java.
RECORDED_RATES = [
    (0, 4000, 400.0, 0),
    (10, 6000, 999.0009990009991, 0),
    (500, 1, 952.4761904761905, 0),
    (999, 2500, 1136.5578688971725, 1502),
    (1000, 100, 1260.1, 2601),
    (1700, 4000, 1551.495327102804, 5901),
    (2600, 0, 1566.1320754716983, 6001),
    (4100, 9000, 2534.7524752475247, 15501),
    (9000, 2000, 2760.1, 17601),
    (10999, 1, 2509.500863714883, 16603),
    (11500, 1500, 2530.608695652174, 17602),
    (12100, 300, 1522.6126126126126, 5801),
    (15050, 12000, 2264.931506849315, 13851),
    (26050, 1, 0.1, 0),
    (26900, 900, 83.04147465437788, 0),
    (60000, 11000, 1100.0, 1000),
    (60001, 1, 1099.9900009999, 1000),
    (70500, 20000, 2952.4761904761904, 20501),
    (70600, -20000, 1037.8301886792453, 401),
]
# The tokens of a bucket and the delay, at a limit of 2 per second.
RECORDED_TOKENS = [
    (0, 20, 2.0, 0),
    (100, 5, -2.8, 1400),
    (600, 1, -2.8, 1400),
    (3000, 1, 1.0, 0),
    (3001, 30, -28.998, 14499),
    (20000, 0, 4.9999999999999964, 0),
    (90000, 23, -1.0, 500),
]


def test_rates_and_delays_are_those_of_kafka() -> None:
    windows = RateWindows(11, 1000, 0)
    for now_ms, value, rate, delay_ms in RECORDED_RATES:
        windows.record(value, now_ms)
        assert (windows.rate(now_ms), windows.delay_ms(1000, now_ms)) == (rate, delay_ms)


def test_tokens_and_delays_are_those_of_kafka() -> None:
    bucket = TokenBucket(11, 1000, 0)
    for now_ms, count, tokens, delay_ms in RECORDED_TOKENS:
        bucket.withdraw(count, 2, now_ms)
        assert bucket.tokens(2, now_ms) == pytest.approx(tokens)
        assert bucket.delay_ms(2, now_ms) == delay_ms


def test_client_that_paused_may_send_ten_windows_at_once() -> None:
    windows = RateWindows(11, 1000, 0)
    windows.record(10_000, 0)
    assert windows.delay_ms(1000, 0) == 0
    windows.record(1, 0)
    assert windows.delay_ms(1000, 0) == 1


def test_delay_returns_the_rate_to_the_limit() -> None:
    windows = RateWindows(11, 1000, 0)
    windows.record(15_000, 0)
    delay_ms = windows.delay_ms(1000, 0)
    assert delay_ms == 5000
    assert windows.rate(10_000) * 10 == pytest.approx(15_000)


def test_removed_bytes_leave_no_trace() -> None:
    windows = RateWindows(11, 1000, 0)
    windows.record(50_000, 0)
    windows.record(-50_000, 0)
    assert windows.rate(0) == 0


@pytest.mark.parametrize("limit", [float("nan"), float("inf")])
def test_limit_that_is_no_number_does_not_delay(limit: float) -> None:
    windows = RateWindows(11, 1000, 0)
    windows.record(50_000, 0)
    assert windows.delay_ms(limit, 0) == 0


def test_delay_fits_in_a_response() -> None:
    windows = RateWindows(11, 1000, 0)
    windows.record(1e18, 0)
    assert windows.delay_ms(1e-9, 0) == 2**31 - 1


class TestTokenBucket:
    def test_it_starts_full(self) -> None:
        assert TokenBucket(11, 1000, 5).tokens(2, 5) == 22

    def test_one_withdrawal_may_overdraw_it(self) -> None:
        bucket = TokenBucket(11, 1000, 0)
        bucket.withdraw(30, 2, 0)
        assert bucket.tokens(2, 0) == -8
        assert bucket.delay_ms(2, 0) == 4000

    def test_tokens_return_at_the_rate_of_the_limit(self) -> None:
        bucket = TokenBucket(11, 1000, 0)
        bucket.withdraw(30, 2, 0)
        assert bucket.delay_ms(2, 3999) == 1
        assert bucket.delay_ms(2, 4000) == 0
        assert bucket.tokens(2, 60_000) == 22

    def test_lower_limit_takes_tokens_away(self) -> None:
        bucket = TokenBucket(11, 1000, 0)
        assert bucket.tokens(10, 0) == 110
        assert bucket.tokens(1, 0) == 11
