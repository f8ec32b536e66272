"""Where the replicas of new partitions go: striped over brokers and racks, leaders evenly spread.

Each partition starts one rack after the one before, and within a rack one broker further; its further replicas take
the racks that follow. After as many partitions as there are usable brokers everything is shuffled, so that the same
brokers do not always follow each other. Fenced brokers may hold replicas, never the first.
"""

from collections.abc import Iterable
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Random
from odradek.core.metadata.image import BrokerImage

T = TypeVar("T")


class _Stripe:
    """Brokers of one rack and state, used in turn; each partition starts at the next one."""

    def __init__(self, broker_ids: list[int], random: Random) -> None:
        self._broker_ids = sorted(broker_ids)
        self._offset = random.randrange(len(broker_ids)) if broker_ids else 0
        self._round = 0
        self._given = 0

    def next(self, current_round: int) -> int | None:
        count = len(self._broker_ids)
        if count == 0:
            return None
        if current_round != self._round:
            self._round = current_round
            self._given = 0
            self._offset = (self._offset + 1) % count
        if self._given >= count:
            return None
        self._given += 1
        return self._broker_ids[(self._given - 1 + self._offset) % count]

    def shuffle(self, random: Random) -> None:
        _shuffle(self._broker_ids, random)


class _Rack:
    def __init__(self, brokers: list[BrokerImage], random: Random) -> None:
        self._fenced = _Stripe([broker.id for broker in brokers if broker.fenced], random)
        self._usable = _Stripe([broker.id for broker in brokers if not broker.fenced], random)

    def next_usable(self, current_round: int) -> int | None:
        return self._usable.next(current_round)

    def next(self, current_round: int) -> int | None:
        broker_id = self._usable.next(current_round)
        return self._fenced.next(current_round) if broker_id is None else broker_id

    def shuffle(self, random: Random) -> None:
        self._fenced.shuffle(random)
        self._usable.shuffle(random)


class Placement:
    """Places the partitions of one request on `brokers`."""

    def __init__(self, brokers: Iterable[BrokerImage], random: Random) -> None:
        by_rack: dict[str | None, list[BrokerImage]] = {}
        for broker in sorted(brokers, key=lambda broker: broker.id):
            by_rack.setdefault(broker.rack, []).append(broker)
        # Brokers without a rack form a rack of their own, which comes first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], random) for name in names]
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


def _shuffle(items: list[T], random: Random) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.randrange(last + 1)
        items[last], items[other] = items[other], items[last]
