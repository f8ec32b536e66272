"""Where replicas lie and what each broker carries because of it. Plain values: nothing is asked or moved."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from odradek.base.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    partition: TopicPartition
    replicas: tuple[int, ...]
    """The first is the one that leads when all are well."""
    size_bytes: int
    """Of one copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    replicas: int = 0
    leaders: int = 0
    """Partitions that this broker would lead if every leader were the preferred one."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """By how much the most burdened broker has more than the least burdened one."""

    replicas: int
    leaders: int
    size_bytes: int


def loads_of(placed: Iterable[PlacedPartition], brokers: Collection[int]) -> dict[int, BrokerLoad]:
    """What each of these brokers carries, those without anything included, in the order of their ids."""
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
