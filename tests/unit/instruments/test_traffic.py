"""Traffic sums never decrease when partitions are removed; rates follow the traffic."""

from collections.abc import Mapping

import pytest

from odradek.instruments.traffic import COUNTERS, BrokerTraffic, Traffic, TrafficRates


def carrying(**counted: int) -> Traffic:
    traffic = Traffic()
    for name, number in counted.items():
        setattr(traffic, name, number)
    return traffic


def sums(broker: BrokerTraffic, *partitions: tuple[str, Traffic]) -> tuple[Traffic, Mapping[str, Traffic]]:
    found = broker.start_sums(topic for topic, _ in partitions)
    for topic, traffic in partitions:
        found.add(topic, traffic)
    return found.total(), found.topics


def test_sums_include_every_counter() -> None:
    one = carrying(**{name: number for number, name in enumerate(COUNTERS, 1)})
    total, topics = sums(BrokerTraffic(), ("a", one), ("a", one), ("b", one))
    for number, name in enumerate(COUNTERS, 1):
        assert getattr(total, name) == 3 * number
        assert (getattr(topics["a"], name), getattr(topics["b"], name)) == (2 * number, number)


def test_counts_of_removed_partitions_stay_in_the_sums() -> None:
    broker = BrokerTraffic()
    stays, leaves, last = carrying(bytes_in=1), carrying(bytes_in=10), carrying(bytes_in=100)
    broker.retire("a", leaves)
    total, topics = sums(broker, ("a", stays), ("b", last))
    assert (total.bytes_in, topics["a"].bytes_in, topics["b"].bytes_in) == (111, 11, 100)
    broker.retire("b", last)
    for _ in range(2):
        total, topics = sums(broker, ("a", stays))
        assert (total.bytes_in, topics["a"].bytes_in) == (111, 11)
        assert "b" not in topics
    # A recreated topic starts at zero, and the broker's counts are unchanged.
    total, topics = sums(broker, ("a", stays), ("b", carrying(bytes_in=5)))
    assert (total.bytes_in, topics["b"].bytes_in) == (116, 5)


def test_partition_removed_during_summation_counts_once() -> None:
    broker = BrokerTraffic()
    stays, leaves, last = carrying(bytes_in=1), carrying(bytes_in=10), carrying(bytes_in=100)
    found = broker.start_sums(("a", "b"))
    for topic, traffic in (("a", leaves), ("b", last)):
        found.add(topic, traffic)
        broker.retire(topic, traffic)
    found.add("a", stays)
    assert (found.total().bytes_in, found.topics["a"].bytes_in, found.topics["b"].bytes_in) == (111, 11, 100)
    total, topics = sums(broker, ("a", stays))
    assert (total.bytes_in, topics["a"].bytes_in) == (111, 11)


def test_rate_starts_with_the_first_sample_and_decays() -> None:
    rates, busy, idle = TrafficRates(), Traffic(), Traffic()
    busy.bytes_in = 5_000
    rates.tick([busy, idle], 5.0)
    assert rates.of(busy) == (1000.0, 0.0, 0.0, 0.0)
    assert rates.of(idle) == (0.0, 0.0, 0.0, 0.0)
    for _ in range(12):
        rates.tick([busy, idle], 5.0)
    assert rates.of(busy)[0] == pytest.approx(1000 / 2.71828, rel=0.01)


def test_steady_rate_is_exact() -> None:
    rates, busy = TrafficRates(), Traffic()
    for _ in range(100):
        busy.bytes_out += 700
        busy.replication_bytes_in += 50
        busy.replication_bytes_out += 100
        rates.tick([busy], 5.0)
    assert rates.of(busy) == pytest.approx((0.0, 140.0, 10.0, 20.0))


def test_rates_of_removed_partitions_are_dropped() -> None:
    rates, gone = TrafficRates(), carrying(bytes_in=1)
    rates.tick([gone], 1.0)
    rates.tick([], 1.0)
    assert rates.of(gone) == (0.0, 0.0, 0.0, 0.0)
