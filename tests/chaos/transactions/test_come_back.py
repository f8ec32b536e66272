"""Calls of a client that may never return."""

import threading

import pytest

from tests.chaos.transactions.confluent_clients import CallHangs, come_back

pytestmark = pytest.mark.needs("confluent_kafka")


def test_a_call_that_hangs_is_given_up() -> None:
    never = threading.Event()
    try:
        with pytest.raises(CallHangs):
            come_back(never.wait, 0.05)
    finally:
        never.set()


def test_what_a_call_raises_is_raised() -> None:
    def refuse() -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        come_back(refuse, 5.0)


def test_a_call_that_returns_is_waited_for() -> None:
    made: list[int] = []
    come_back(lambda: made.append(1), 5.0)
    assert made == [1]
