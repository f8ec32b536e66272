"""What goes in and out of partitions. Counted per partition only, where it happens; topics and brokers are sums.

A partition that leaves takes none of it along: its figures stay in its topic's, and those of a topic in the broker's,
since counters that fall are taken for those of a node that was started anew.
"""

from collections.abc import Iterable
from math import exp
from typing import Final

COUNTERS: Final = (
    "bytes_in",
    "messages_in",
    "appends",
    "refused_appends",
    "failed_appends",
    "bytes_rejected",
    "bytes_out",
    "fetches",
    "failed_fetches",
    "replication_bytes_in",
    "replication_bytes_out",
)
RATED: Final = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")
_NOTHING: Final = (0,) * len(RATED)
_STANDSTILL: Final = (0.0,) * len(RATED)
RATE_SECONDS: Final = 60.0
"""A rate is that of the last minute, as far as an exponential decay has a length."""


class Traffic:
    """Bytes are those of record batches. In and out is what clients write and read; brokers' copies are apart."""

    __slots__ = COUNTERS

    def __init__(self) -> None:
        self.bytes_in = 0
        self.messages_in = 0
        self.appends = 0
        """Batches taken, those included that were here already."""
        self.refused_appends = 0
        self.failed_appends = 0
        """Of the refused, those for which Kafka blames the broker."""
        self.bytes_rejected = 0
        """Of batches larger than allowed."""
        self.bytes_out = 0
        self.fetches = 0
        self.failed_fetches = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: "Traffic") -> None:
        self.bytes_in += other.bytes_in
        self.messages_in += other.messages_in
        self.appends += other.appends
        self.refused_appends += other.refused_appends
        self.failed_appends += other.failed_appends
        self.bytes_rejected += other.bytes_rejected
        self.bytes_out += other.bytes_out
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches
        self.replication_bytes_in += other.replication_bytes_in
        self.replication_bytes_out += other.replication_bytes_out


class BrokerTraffic:
    """What partitions leave behind."""

    def __init__(self) -> None:
        self._gone: Final = Traffic()
        self._of_topics: Final[dict[str, Traffic]] = {}

    def retire(self, topic: str, traffic: Traffic) -> None:
        """A partition has left."""
        self._of_topics.setdefault(topic, Traffic()).add(traffic)

    def left_behind(self, topics: Iterable[str]) -> "TrafficSums":
        """To begin with, before the partitions that are here are added one by one. `topics` are all that they are of.

        A partition that leaves while they are being added is among them, and not among those that have left.
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
        """Of topics that are not here any more."""

    def add(self, topic: str, traffic: Traffic) -> None:
        self.topics[topic].add(traffic)

    def total(self) -> Traffic:
        """Of the broker."""
        total = Traffic()
        for part in (self.gone, *self.topics.values()):
            total.add(part)
        return total


class _Rate:
    """Of one partition that ever had traffic."""

    __slots__ = ("counted", "per_second")

    def __init__(self) -> None:
        self.counted = _NOTHING
        self.per_second: tuple[float, ...] | None = None

    def tick(self, counted: tuple[int, ...], seconds: float, weight: float) -> None:
        now = tuple((new - old) / seconds for new, old in zip(counted, self.counted, strict=True))
        self.counted = counted
        # The first figure is the best there is.
        if self.per_second is None:
            self.per_second = now
        else:
            pairs = zip(self.per_second, now, strict=True)
            self.per_second = tuple(rate + weight * (new - rate) for rate, new in pairs)


class TrafficRates:
    """Bytes per second of every partition, over the last minute or so: newer seconds weigh more."""

    def __init__(self) -> None:
        self._rates: dict[Traffic, _Rate] = {}

    def tick(self, traffics: Iterable[Traffic], seconds: float) -> None:
        """So much time has passed since the last call. Those that are not among them any more are forgotten."""
        weight = 1 - exp(-seconds / RATE_SECONDS)
        known, self._rates = self._rates, {}
        for traffic in traffics:
            counted = _rated(traffic)
            rate = known.get(traffic)
            if rate is None and counted != _NOTHING:
                rate = _Rate()
            if rate is not None:
                rate.tick(counted, seconds, weight)
                self._rates[traffic] = rate

    def of(self, traffic: Traffic) -> tuple[float, ...]:
        """In the order of `RATED`."""
        rate = self._rates.get(traffic)
        return _STANDSTILL if rate is None or rate.per_second is None else rate.per_second


def _rated(traffic: Traffic) -> tuple[int, ...]:
    return traffic.bytes_in, traffic.bytes_out, traffic.replication_bytes_in, traffic.replication_bytes_out
