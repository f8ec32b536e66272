"""Calls of a client library that may never return."""

import threading

import pytest

from tests.chaos.transactions.confluent_clients import CallTimedOut, call_with_timeout

pytestmark = pytest.mark.needs("confluent_kafka")


def test_call_that_hangs_raises_an_error() -> None:
    never = threading.Event()
    try:
        with pytest.raises(CallTimedOut):
            call_with_timeout(never.wait, 0.05)
    finally:
        never.set()


def test_error_of_a_call_is_raised() -> None:
    def refuse() -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        call_with_timeout(refuse, 5.0)


def test_call_that_returns_succeeds() -> None:
    made: list[int] = []
    call_with_timeout(lambda: made.append(1), 5.0)
    assert made == [1]
