"""Rates of new connections."""

import pytest

from odradek.core.quotas.connections import UNLIMITED, ConnectionRates


@pytest.fixture
def rates() -> ConnectionRates:
    return ConnectionRates(11, 1000, privileged_listener="INTERNAL")


def test_nothing_is_limited_by_default(rates: ConnectionRates) -> None:
    assert not rates.is_limited
    rates.change(node_max=UNLIMITED, listener_max={"PLAINTEXT": UNLIMITED})
    assert not rates.is_limited


def test_node_limit_excludes_the_privileged_listener(rates: ConnectionRates) -> None:
    rates.change(node_max=1, listener_max={})
    assert rates.is_limited
    for _ in range(10):
        assert rates.count("PLAINTEXT", 0) == 0
    assert rates.count("PLAINTEXT", 0) == 1000
    for _ in range(100):
        assert rates.count("INTERNAL", 0) == 0


def test_listener_limit_includes_the_privileged_listener(rates: ConnectionRates) -> None:
    rates.change(node_max=UNLIMITED, listener_max={"INTERNAL": 1})
    assert [rates.count("INTERNAL", 0) for _ in range(11)] == [*[0] * 10, 1000]
    assert rates.count("PLAINTEXT", 0) == 0


def test_delay_is_one_window_at_most(rates: ConnectionRates) -> None:
    rates.change(node_max=0, listener_max={})
    assert rates.count("PLAINTEXT", 0) == 1000


def test_connection_above_the_rate_of_its_address_does_not_count(rates: ConnectionRates) -> None:
    rates.change(node_max=2, listener_max={})
    rates.change_addresses({"10.0.0.1": 1}, UNLIMITED)
    for number in range(30):
        assert rates.count("PLAINTEXT", 0) == 0
        assert rates.count_address("PLAINTEXT", "10.0.0.1", 0) == (0 if number < 10 else 1000)
    assert rates.count_address("PLAINTEXT", "10.0.0.2", 0) == 0


def test_default_rate_applies_to_each_other_address(rates: ConnectionRates) -> None:
    rates.change_addresses({"10.0.0.1": 100}, 1)
    for address in ("10.0.0.2", "10.0.0.3"):
        assert [bool(rates.count_address("PLAINTEXT", address, 0)) for _ in range(11)] == [*[False] * 10, True]
    assert not any(rates.count_address("PLAINTEXT", "10.0.0.1", 0) for _ in range(100))
