"""Where the replicas of new partitions go: striped over brokers, racks and hosts, leaders evenly spread.

Each partition starts one rack after the one before, and within a rack one broker further; its further replicas take
the racks that follow, and within a rack the hosts that have the fewest replicas of the partition. After as many
partitions as there are usable brokers everything is shuffled, so that the same brokers do not always follow each other.
Fenced brokers may hold replicas, never the first. With one broker per host, or one host per rack, this is Kafka's
placement.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, zip_longest
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Random
from odradek.core.metadata.image import BrokerImage

T = TypeVar("T")


class _Stripe:
    """Brokers of one rack and state, used in turn; each partition starts at the next one."""

    def __init__(self, broker_ids: list[int], hosts: Mapping[int, str], random: Random) -> None:
        self._hosts = hosts
        self._broker_ids = _interleave_hosts(sorted(broker_ids), hosts)
        self._offset = random.randrange(len(broker_ids)) if broker_ids else 0
        self._round = 0
        self._used_places: set[int] = set()

    def unused(self, current_round: int) -> Iterator[tuple[int, int]]:
        """The brokers without a replica of the current partition, in order, each with its place."""
        count = len(self._broker_ids)
        if current_round != self._round and count:
            self._round = current_round
            self._used_places.clear()
            self._offset = (self._offset + 1) % count
        for place in range(count):
            if place not in self._used_places:
                yield place, self._broker_ids[(self._offset + place) % count]

    def use(self, place: int) -> None:
        self._used_places.add(place)

    def shuffle(self, random: Random) -> None:
        _shuffle(self._broker_ids, random)
        self._broker_ids = _interleave_hosts(self._broker_ids, self._hosts)


class _Rack:
    def __init__(self, brokers: list[BrokerImage], hosts: Mapping[int, str], random: Random) -> None:
        self._hosts = hosts
        self._fenced = _Stripe([broker.id for broker in brokers if broker.fenced], hosts, random)
        self._usable = _Stripe([broker.id for broker in brokers if not broker.fenced], hosts, random)
        # Otherwise all brokers are alike, and the first in order is as good as any.
        self._has_shared_hosts = 1 < len({hosts[broker.id] for broker in brokers}) < len(brokers)
        self._round = 0
        self._replicas_on: Counter[str] = Counter()
        """Replicas of the current partition on each host of this rack."""
        self._given: Counter[int] = Counter()

    def next_usable(self, current_round: int) -> int | None:
        for place, broker_id in self._usable.unused(current_round):
            return self._use(self._usable, place, broker_id, current_round)
        return None

    def next(self, current_round: int) -> int | None:
        """The next broker of the host with the fewest replicas of the partition, usable ones first."""
        in_order = self._unused(current_round)
        chosen = next(in_order, None)
        if chosen is None:
            return None
        if self._has_shared_hosts and current_round == self._round and self._replicas_on[self._hosts[chosen[2]]]:
            # Of several, the one with the fewest replicas: the first in order would get those of all that are skipped.
            chosen = min(chain([chosen], in_order), key=self._cost)
        return self._use(*chosen, current_round)

    def _unused(self, current_round: int) -> Iterator[tuple[_Stripe, int, int]]:
        for stripe in (self._usable, self._fenced):
            for place, broker_id in stripe.unused(current_round):
                yield stripe, place, broker_id

    def _cost(self, candidate: tuple[_Stripe, int, int]) -> tuple[int, bool, int]:
        stripe, _, broker_id = candidate
        return self._replicas_on[self._hosts[broker_id]], stripe is self._fenced, self._given[broker_id]

    def _use(self, stripe: _Stripe, place: int, broker_id: int, current_round: int) -> int:
        if self._has_shared_hosts:
            if current_round != self._round:
                self._round = current_round
                self._replicas_on.clear()
            self._replicas_on[self._hosts[broker_id]] += 1
            self._given[broker_id] += 1
        stripe.use(place)
        return broker_id

    def shuffle(self, random: Random) -> None:
        self._fenced.shuffle(random)
        self._usable.shuffle(random)


class Placement:
    """Places the partitions of one request on `brokers`."""

    def __init__(self, brokers: Iterable[BrokerImage], random: Random, inter_broker_listener_name: str) -> None:
        by_rack: dict[str | None, list[BrokerImage]] = {}
        hosts: dict[int, str] = {}
        for broker in sorted(brokers, key=lambda broker: broker.id):
            by_rack.setdefault(broker.rack, []).append(broker)
            hosts[broker.id] = broker.host(inter_broker_listener_name)
        # Brokers without a rack form a rack of their own, which comes first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], hosts, random) for name in names]
        self._broker_count = sum(map(len, by_rack.values()))
        self._usable_count = sum(not broker.fenced for rack in by_rack.values() for broker in rack)
        self._random = random
        self._first_rack = random.randrange(len(names)) if names else 0
        self._round = 0

    def place(self, partition_count: int, replication_factor: int) -> list[tuple[int, ...]]:
        if replication_factor <= 0:
            raise KafkaError(
                ErrorCode.invalid_replication_factor,
                f"Invalid replication factor {replication_factor}: the replication factor must be positive.",
            )
        if self._usable_count == 0:
            raise KafkaError(
                ErrorCode.invalid_replication_factor,
                "All brokers are currently fenced, or have all their log directories cordoned.",
            )
        if replication_factor > self._broker_count:
            raise KafkaError(
                ErrorCode.invalid_replication_factor,
                f"The target replication factor of {replication_factor} cannot be reached because only "
                f"{self._broker_count} broker(s) are registered or some brokers have all their log directories "
                "cordoned.",
            )
        return [self._place_one(replication_factor) for _ in range(partition_count)]

    def _place_one(self, replication_factor: int) -> tuple[int, ...]:
        if self._round == self._usable_count and self._usable_count > 1:
            _shuffle(self._racks, self._random)
            for rack in self._racks:
                rack.shuffle(self._random)
            self._round = 0
        rack_count = len(self._racks)
        first = self._first_rack % rack_count
        rack_of_leader = first
        while (leader := self._racks[rack_of_leader].next_usable(self._round)) is None:
            rack_of_leader = (rack_of_leader + 1) % rack_count
        replicas = [leader]
        skip: int | None = rack_of_leader
        rack_index = first
        while len(replicas) < replication_factor:
            broker_id = None
            if rack_index == skip:
                # The leader's rack is skipped in the first round only.
                skip = None
            else:
                broker_id = self._racks[rack_index].next(self._round)
            rack_index = (rack_index + 1) % rack_count
            if broker_id is not None:
                replicas.append(broker_id)
        self._round += 1
        self._first_rack = first + 1
        return tuple(replicas)


def _interleave_hosts(broker_ids: list[int], hosts: Mapping[int, str]) -> list[int]:
    """A broker of each host, then a second one of each, and so on: neighbours are on different hosts."""
    by_host: dict[str, list[int]] = {}
    for broker_id in broker_ids:
        by_host.setdefault(hosts[broker_id], []).append(broker_id)
    turns = zip_longest(*by_host.values())
    return [broker_id for turn in turns for broker_id in turn if broker_id is not None]


def _shuffle(items: list[T], random: Random) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.randrange(last + 1)
        items[last], items[other] = items[other], items[last]
