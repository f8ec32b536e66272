"""What goes in and out of partitions. Counted per partition only, where it happens; topics and brokers are sums.

A partition that leaves takes none of it along: its figures stay in its topic's, and those of a topic in the broker's,
since counters that fall are taken for those of a node that was started anew.
"""

from collections.abc import Iterable, Mapping
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
    "reassignment_bytes_in",
    "reassignment_bytes_out",
)
RATED: Final = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")
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
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0

    def add(self, other: "Traffic") -> None:
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class BrokerTraffic:
    """What partitions leave behind."""

    def __init__(self) -> None:
        self._gone: Final = Traffic()
        self._of_topics: Final[dict[str, Traffic]] = {}

    def retire(self, topic: str, traffic: Traffic) -> None:
        """A partition has left."""
        self._of_topics.setdefault(topic, Traffic()).add(traffic)

    def sums(self, partitions: Iterable[tuple[str, Traffic]]) -> tuple[Traffic, Mapping[str, Traffic]]:
        """Of the broker, and of the topics of these partitions, which are all that are here."""
        topics: dict[str, Traffic] = {}
        for topic, traffic in partitions:
            topics.setdefault(topic, Traffic()).add(traffic)
        for topic in [one for one in self._of_topics if one not in topics]:
            self._gone.add(self._of_topics.pop(topic))
        for topic, retired in self._of_topics.items():
            topics[topic].add(retired)
        total = Traffic()
        for part in (self._gone, *topics.values()):
            total.add(part)
        return total, topics


class TrafficRate:
    """Bytes per second of one partition, decaying."""

    __slots__ = ("_counted", "per_second")

    def __init__(self) -> None:
        self._counted = (0,) * len(RATED)
        self.per_second: list[float] | None = None

    def tick(self, traffic: Traffic, seconds: float) -> None:
        """So much time has passed since the last call."""
        counted = (
            traffic.bytes_in,
            traffic.bytes_out,
            traffic.replication_bytes_in,
            traffic.replication_bytes_out,
        )
        now = [(new - old) / seconds for new, old in zip(counted, self._counted, strict=True)]
        self._counted = counted
        if self.per_second is None:
            self.per_second = now
            return
        weight = 1 - exp(-seconds / RATE_SECONDS)
        self.per_second = [rate + weight * (new - rate) for rate, new in zip(self.per_second, now, strict=True)]
