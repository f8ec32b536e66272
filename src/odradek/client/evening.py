"""Brokers made to carry alike: replicas by moving them, bytes by moving and exchanging them, leaders by turning the
order of replicas, which copies nothing.

Every step lessens one skew and makes none worse, so that each of these comes to an end, and stopping early does no
harm. The same assignment always gives the same steps.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from odradek.client.assignment import Assignment, Change, first_in

# How many of a broker's partitions are tried for one step before another broker is.
_CANDIDATES_MAX: Final = 200
_EXCHANGED_MAX: Final = 8
# Of the difference between two brokers: beyond this, copying a partition makes them differ almost as much as before.
_WORTH_MOVING: Final = 0.75


class Evening:
    """`movable`: the numbers of the partitions that may be touched."""

    def __init__(self, assignment: Assignment, movable: Collection[int]) -> None:
        self._assignment: Final = assignment
        self._movable: Final = frozenset(movable)
        self._steps_max: Final = 2 * sum(map(len, assignment.replicas))
        # Pairs of brokers between which nothing could go. They are looked at again only when nothing else is left:
        # racks may forbid all of ten thousand partitions, and would at every step.
        self._barren: Final[set[tuple[int, int]]] = set()

    def part_racks(self) -> None:
        """No two replicas on one rack, as far as there are racks: this is worth copying for, and comes before all."""
        held = self._assignment
        for index in sorted(self._movable):
            while (change := self._parted(index)) is not None:
                held.apply(change)

    def even_replicas(self, sources: Sequence[int], sinks: Sequence[int]) -> None:
        self._repeat(lambda: self._replica_step(sources, sinks))

    def even_bytes(self, sources: Sequence[int], sinks: Sequence[int], *, exchanging: bool) -> None:
        """`exchanging`: a large partition may go for a small one in return, when numbers of replicas allow no more."""
        self._repeat(lambda: self._bytes_step(sources, sinks, exchanging))

    def even_leaders(self) -> None:
        self._repeat(self._leader_step)

    def _repeat(self, step: Callable[[], Sequence[Change]]) -> None:
        self._barren.clear()
        has_changed_since = False
        for _ in range(self._steps_max):
            changes = step()
            if not changes and not has_changed_since:
                return
            if not changes:
                self._barren.clear()
            has_changed_since = bool(changes)
            for change in changes:
                self._assignment.apply(change)

    def _parted(self, index: int) -> Change | None:
        """One replica that shares its rack gone to a rack of its own; of several, the one whose broker has most."""
        held = self._assignment
        replicas = held.replicas[index]
        shared = held.shared_racks(replicas)
        if not shared:
            return None
        together = [
            broker for broker in replicas if broker in held.replica_counts and held.shares_its_rack(replicas, broker)
        ]
        if not together:
            return None
        leaving = max(together, key=lambda broker: (held.replica_counts[broker], broker))
        for coming in sorted(held.targets, key=lambda broker: (held.replica_counts[broker], held.bytes_on[broker])):
            if coming not in replicas:
                change = held.replacement(index, leaving, coming)
                if held.shared_racks(change.replicas) < shared:
                    return change
        return None

    def _replica_step(self, sources: Sequence[int], sinks: Sequence[int]) -> Sequence[Change]:
        held = self._assignment
        for source in self._by_replicas(sources, most_first=True):
            for sink in self._by_replicas(sinks):
                if held.replica_counts[source] - held.replica_counts[sink] < 2:
                    break
                if (source, sink) in self._barren:
                    continue
                # Where bytes differ too, half of that is what both would like to see moved; otherwise the least.
                wanted_bytes = max(0, held.bytes_on[source] - held.bytes_on[sink]) // 2
                for change in self._moves(source, sink, wanted_bytes):
                    if held.makes_nothing_worse([change]):
                        return [change]
                self._barren.add((source, sink))
        return ()

    def _bytes_step(self, sources: Sequence[int], sinks: Sequence[int], exchanging: bool) -> Sequence[Change]:
        held = self._assignment
        for source in self._by_bytes(sources, most_first=True):
            for sink in self._by_bytes(sinks):
                difference = held.bytes_on[source] - held.bytes_on[sink]
                if difference <= held.bytes_tolerance:
                    break
                if (source, sink) in self._barren:
                    continue
                for change in self._moves(source, sink, difference // 2):
                    if 0 < held.sizes[change.number] <= difference * _WORTH_MOVING and held.makes_nothing_worse(
                        [change]
                    ):
                        return [change]
                if exchanging and (changes := self._exchange(source, sink, difference)):
                    return changes
                self._barren.add((source, sink))
        return ()

    def _exchange(self, source: int, sink: int, difference: int) -> Sequence[Change]:
        """A larger partition for a smaller one. What is evened out has to be at least half of what is copied."""
        held = self._assignment
        for back in islice(self._moves(sink, source, 0), _EXCHANGED_MAX):
            size_back = held.sizes[back.number]
            for there in self._moves(source, sink, size_back + difference // 2):
                gained = held.sizes[there.number] - size_back
                is_worth_it = 4 * min(gained, difference - gained) >= held.sizes[there.number] + size_back
                if gained > 0 and is_worth_it and held.makes_nothing_worse([back, there]):
                    return [back, there]
        return ()

    def _leader_step(self) -> Sequence[Change]:
        """Leadership handed on along a chain of brokers, each of which follows the one before in some partition."""
        held = self._assignment
        for source in sorted(held.targets, key=lambda broker: (-held.leader_counts[broker], broker)):
            came_by: dict[int, tuple[int, int]] = {}
            waiting = deque([source])
            while waiting:
                leader = waiting.popleft()
                for index in held.led_by(leader):
                    if index not in self._movable:
                        continue
                    for follower in held.replicas[index][1:]:
                        if follower == source or follower in came_by or follower not in held.leader_counts:
                            continue
                        came_by[follower] = (leader, index)
                        if held.leader_counts[source] - held.leader_counts[follower] >= 2:
                            return self._handed_on(follower, source, came_by)
                        waiting.append(follower)
        return ()

    def _handed_on(self, last: int, source: int, came_by: dict[int, tuple[int, int]]) -> Sequence[Change]:
        changes = []
        while last != source:
            leader, index = came_by[last]
            changes.append(Change(index, first_in(self._assignment.replicas[index], last)))
            last = leader
        return changes

    def _moves(self, source: int, sink: int, wanted_bytes: int) -> Iterator[Change]:
        """Replicas that may go from one broker to the other, the one nearest in size first."""
        held = self._assignment
        allowed = (
            held.replacement(index, source, sink)
            for index in held.nearest_in_size(source, wanted_bytes)
            if index in self._movable and held.may_replace(index, source, sink)
        )
        return islice(allowed, _CANDIDATES_MAX)

    def _by_replicas(self, brokers: Sequence[int], *, most_first: bool = False) -> list[int]:
        held, sign = self._assignment, -1 if most_first else 1
        return sorted(
            brokers, key=lambda broker: (sign * held.replica_counts[broker], sign * held.bytes_on[broker], broker)
        )

    def _by_bytes(self, brokers: Sequence[int], *, most_first: bool = False) -> list[int]:
        held, sign = self._assignment, -1 if most_first else 1
        return sorted(brokers, key=lambda broker: (sign * held.bytes_on[broker], broker))
