"""Traffic counters. Counted per partition only; those of topics and of the broker are sums.

A removed partition's counts stay in its topic's sum, and a removed topic's in the broker's, since Prometheus takes a
counter that decreases for a restart.
"""

from collections.abc import Iterable
from math import exp
from typing import Final

COUNTERS: Final = (
    "bytes_in",
    "messages_in",
    "appends",
    "rejected_appends",
    "failed_appends",
    "bytes_rejected",
    "bytes_out",
    "fetches",
    "failed_fetches",
    "replication_bytes_in",
    "replication_bytes_out",
)
RATED: Final = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")
_NO_TRAFFIC: Final = (0,) * len(RATED)
_NO_RATES: Final = (0.0,) * len(RATED)
RATE_SECONDS: Final = 60.0
"""The time constant of the exponential decay: rates cover about the last minute."""


class Traffic:
    """Bytes of record batches. In and out count clients; replication is counted separately."""

    __slots__ = COUNTERS

    def __init__(self) -> None:
        self.bytes_in = 0
        self.messages_in = 0
        self.appends = 0
        """Accepted batches, including duplicates."""
        self.rejected_appends = 0
        self.failed_appends = 0
        """Of the rejected appends, those that Kafka counts as failures of the broker."""
        self.bytes_rejected = 0
        """Bytes of batches above max.message.bytes."""
        self.bytes_out = 0
        self.fetches = 0
        self.failed_fetches = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: "Traffic") -> None:
        self.bytes_in += other.bytes_in
        self.messages_in += other.messages_in
        self.appends += other.appends
        self.rejected_appends += other.rejected_appends
        self.failed_appends += other.failed_appends
        self.bytes_rejected += other.bytes_rejected
        self.bytes_out += other.bytes_out
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches
        self.replication_bytes_in += other.replication_bytes_in
        self.replication_bytes_out += other.replication_bytes_out


class BrokerTraffic:
    """The counts of removed partitions."""

    def __init__(self) -> None:
        self._gone: Final = Traffic()
        self._of_topics: Final[dict[str, Traffic]] = {}

    def retire(self, topic: str, traffic: Traffic) -> None:
        """Adds the counts of a partition that was removed."""
        self._of_topics.setdefault(topic, Traffic()).add(traffic)

    def start_sums(self, topics: Iterable[str]) -> "TrafficSums":
        """Sums with the counts of removed partitions; the caller adds the current partitions. `topics` are theirs.

        A partition that is removed while the caller adds is counted once, among the current ones.
        """
        sums = TrafficSums({topic: Traffic() for topic in topics})
        for topic in [one for one in self._of_topics if one not in sums.topics]:
            self._gone.add(self._of_topics.pop(topic))
        for topic, retired in self._of_topics.items():
            sums.topics[topic].add(retired)
        sums.gone.add(self._gone)
        return sums


class TrafficSums:
    def __init__(self, topics: dict[str, Traffic]) -> None:
        self.topics: Final = topics
        self.gone: Final = Traffic()
        """Counts of topics without partitions on this broker."""

    def add(self, topic: str, traffic: Traffic) -> None:
        self.topics[topic].add(traffic)

    def total(self) -> Traffic:
        """The counts of the broker."""
        total = Traffic()
        for part in (self.gone, *self.topics.values()):
            total.add(part)
        return total


class _Rate:
    """The rates of one partition that has had traffic."""

    __slots__ = ("counted", "per_second")

    def __init__(self) -> None:
        self.counted = _NO_TRAFFIC
        self.per_second: tuple[float, ...] | None = None

    def tick(self, counted: tuple[int, ...], seconds: float, weight: float) -> None:
        now = tuple((new - old) / seconds for new, old in zip(counted, self.counted, strict=True))
        self.counted = counted
        # The first sample is the estimate.
        if self.per_second is None:
            self.per_second = now
        else:
            pairs = zip(self.per_second, now, strict=True)
            self.per_second = tuple(rate + weight * (new - rate) for rate, new in pairs)


class TrafficRates:
    """Bytes per second of every partition, over about the last minute: recent seconds weigh more."""

    def __init__(self) -> None:
        self._rates: dict[Traffic, _Rate] = {}

    def tick(self, traffics: Iterable[Traffic], seconds: float) -> None:
        """Updates the rates after `seconds`, and drops the partitions that are not in `traffics`."""
        weight = 1 - exp(-seconds / RATE_SECONDS)
        known, self._rates = self._rates, {}
        for traffic in traffics:
            counted = _rated_counters(traffic)
            rate = known.get(traffic)
            if rate is None and counted != _NO_TRAFFIC:
                rate = _Rate()
            if rate is not None:
                rate.tick(counted, seconds, weight)
                self._rates[traffic] = rate

    def of(self, traffic: Traffic) -> tuple[float, ...]:
        """In the order of `RATED`."""
        rate = self._rates.get(traffic)
        return _NO_RATES if rate is None or rate.per_second is None else rate.per_second


def _rated_counters(traffic: Traffic) -> tuple[int, ...]:
    return traffic.bytes_in, traffic.bytes_out, traffic.replication_bytes_in, traffic.replication_bytes_out
