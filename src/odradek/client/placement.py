"""The placement of replicas and the resulting load of each broker, as plain values."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.base.ids import TopicPartition


class Place(NamedTuple):
    """Where a broker is. A host is within one rack: the same host name in two racks counts as two hosts.

    So replicas that are on as many racks as possible can always be on as many hosts as possible too, by replacing one
    replica after the other.
    """

    rack: str | None = None
    host: str | None = None
    """The computer: brokers with the same advertised host name share it."""

    @property
    def rack_key(self) -> "Place | None":
        """What is equal for brokers of the same rack. A host without a rack is one; None: the broker is one."""
        if self.rack is None:
            return self.host_key
        return Place(rack=self.rack)

    @property
    def host_key(self) -> "Place | None":
        """What is equal for brokers of the same host. None: the broker is one of its own."""
        return None if self.host is None else self


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    partition: TopicPartition
    replicas: tuple[int, ...]
    """The first is the preferred leader."""
    size_bytes: int
    """Size of one replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    replicas: int = 0
    leaders: int = 0
    """The number of partitions with this broker as preferred leader."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """The differences between the most and the least loaded broker."""

    replicas: int
    leaders: int
    size_bytes: int


def loads_of(placed: Iterable[PlacedPartition], brokers: Collection[int]) -> dict[int, BrokerLoad]:
    """Return the load of each of these brokers, sorted by id, including brokers without replicas."""
    replicas, leaders, size_bytes = (dict.fromkeys(sorted(brokers), 0) for _ in range(3))
    for one in placed:
        for position, broker in enumerate(one.replicas):
            if broker in replicas:
                replicas[broker] += 1
                leaders[broker] += position == 0
                size_bytes[broker] += one.size_bytes
    return {
        broker: BrokerLoad(replicas=replicas[broker], leaders=leaders[broker], size_bytes=size_bytes[broker])
        for broker in replicas
    }


def skew_of(loads: Sequence[BrokerLoad]) -> Skew:
    return Skew(
        replicas=spread([load.replicas for load in loads]),
        leaders=spread([load.leaders for load in loads]),
        size_bytes=spread([load.size_bytes for load in loads]),
    )


def spread(amounts: Collection[int]) -> int:
    return max(amounts) - min(amounts) if amounts else 0
