"""The replica assignment while a plan is made: replicas change one by one, and the load of every broker is kept.

Knows what a step changes and which steps are allowed, not the purpose of the plan.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.placement import Place, PlacedPartition, spread

# Brokers whose bytes differ by less than this share of the mean count as balanced.
_BYTES_TOLERANCE_SHARE: Final = 0.1
_NO_PLACE: Final = Place()


class Change(NamedTuple):
    """The new replicas of one partition, identified by its number."""

    number: int
    replicas: tuple[int, ...]


class Assignment:
    """`targets` are the brokers that may receive replicas; only their load is counted."""

    def __init__(
        self, placed: Sequence[PlacedPartition], places: Mapping[int, Place], targets: Collection[int]
    ) -> None:
        self.targets: Final = sorted(targets)
        self.sizes: Final = [one.size_bytes for one in placed]
        self.replicas: Final[list[tuple[int, ...]]] = []
        self.replica_counts: Final = dict.fromkeys(self.targets, 0)
        self.leader_counts: Final = dict.fromkeys(self.targets, 0)
        self.bytes_on: Final = dict.fromkeys(self.targets, 0)
        brokers = {*self.targets, *places, *(broker for one in placed for broker in one.replicas)}
        self._racks: Final = {broker: places.get(broker, _NO_PLACE).rack_key or broker for broker in brokers}
        self._hosts: Final = {broker: places.get(broker, _NO_PLACE).host_key or broker for broker in brokers}
        # Sorted by size, then by number.
        self._held: Final[dict[int, list[tuple[int, int]]]] = {broker: [] for broker in self.targets}
        # A dict is used as an ordered set, so that the same cluster always gives the same plan.
        self._led: Final[dict[int, dict[int, None]]] = {broker: {} for broker in self.targets}
        for index, one in enumerate(placed):
            self.replicas.append(())
            self.apply(Change(index, one.replicas))
        mean_bytes = sum(self.bytes_on.values()) / max(1, len(self.targets))
        self.bytes_tolerance: Final = int(mean_bytes * _BYTES_TOLERANCE_SHARE)

    def apply(self, change: Change) -> None:
        index, after = change
        before = self.replicas[index]
        for broker in set(before) - set(after):
            if broker in self._held:
                del self._held[broker][bisect_left(self._held[broker], (self.sizes[index], index))]
        for broker in set(after) - set(before):
            if broker in self._held:
                insort(self._held[broker], (self.sizes[index], index))
        if before and before[0] in self._led:
            self._led[before[0]].pop(index, None)
        if after[0] in self._led:
            self._led[after[0]][index] = None
        for counts, deltas in zip(self._counts, self._deltas([change]), strict=True):
            for broker, delta in deltas.items():
                counts[broker] += delta
        self.replicas[index] = after

    def led_by(self, broker: int) -> Iterator[int]:
        return iter(self._led[broker])

    def nearest_in_size(self, broker: int, size_bytes: int) -> Iterator[int]:
        """Yield the broker's partitions, the nearest in size first, the smaller of two equally near ones."""
        held = self._held[broker]
        above = bisect_left(held, (size_bytes, -1))
        below = above - 1
        while below >= 0 or above < len(held):
            if above == len(held) or (below >= 0 and size_bytes - held[below][0] <= held[above][0] - size_bytes):
                yield held[below][1]
                below -= 1
            else:
                yield held[above][1]
                above += 1

    def replacement(self, index: int, leaving: int, coming: int) -> Change:
        """Replace one replica by another. If it was the preferred leader, the replica that leads least becomes it."""
        replicas = self.replicas[index]
        after = tuple(coming if broker == leaving else broker for broker in replicas)
        if replicas[0] == leaving:
            first = min(after, key=lambda broker: (broker not in self.leader_counts, self.leader_counts.get(broker, 0)))
            after = first_in(after, first)
        return Change(index, after)

    def may_replace(self, index: int, leaving: int, coming: int) -> bool:
        """Return whether `coming` has no replica yet and would not share a rack or a host with one."""
        replicas = self.replicas[index]
        if coming in replicas:
            return False
        after = tuple(coming if broker == leaving else broker for broker in replicas)
        return self.shared_places(after) <= self.shared_places(replicas)

    def shared_places(self, replicas: Sequence[int]) -> tuple[int, int]:
        """Count the replicas on a rack, and those on a host, that already has one. Racks come first."""
        racks = {self._racks[broker] for broker in replicas}
        hosts = {self._hosts[broker] for broker in replicas}
        return len(replicas) - len(racks), len(replicas) - len(hosts)

    def shares(self, replicas: Sequence[int], broker: int) -> tuple[bool, bool]:
        """Return whether the broker shares its rack, and its host, with another replica."""
        others = [other for other in replicas if other != broker]
        return (
            any(self._racks[other] == self._racks[broker] for other in others),
            any(self._hosts[other] == self._hosts[broker] for other in others),
        )

    def makes_nothing_worse(self, changes: Sequence[Change]) -> bool:
        """Return whether these changes increase no skew. The skew of bytes may grow within the tolerance."""
        allowances = (0, 0, self.bytes_tolerance)
        for counts, deltas, allowance in zip(self._counts, self._deltas(changes), allowances, strict=True):
            if any(deltas.values()):
                after = [amount + deltas.get(broker, 0) for broker, amount in counts.items()]
                if spread(after) > max(spread(counts.values()), allowance):
                    return False
        return True

    @property
    def _counts(self) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        return self.replica_counts, self.leader_counts, self.bytes_on

    def _deltas(self, changes: Sequence[Change]) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """Return the changes of replicas, leaders and bytes for each target."""
        replicas: dict[int, int] = {}
        leaders: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for index, after in changes:
            before = self.replicas[index]
            for sign, brokers in ((-1, before), (1, after)):
                for position, broker in enumerate(brokers):
                    if broker not in self.replica_counts:
                        continue
                    replicas[broker] = replicas.get(broker, 0) + sign
                    sizes[broker] = sizes.get(broker, 0) + sign * self.sizes[index]
                    if position == 0:
                        leaders[broker] = leaders.get(broker, 0) + sign
        return replicas, leaders, sizes


def first_in(replicas: Sequence[int], first: int) -> tuple[int, ...]:
    """Move one replica to the front and keep the order of the others."""
    return (first, *(broker for broker in replicas if broker != first))
