"""Rebalances brokers: replicas by moving them, bytes by moving and exchanging replicas, leaders by reordering the
replicas of a partition, which copies nothing.

Every step reduces one skew and increases none, so each phase ends, and stopping early does no harm. The same assignment
always gives the same steps.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from odradek.client.assignment import Assignment, Change, first_in

# Partitions of a broker to try for one step before trying another broker.
_CANDIDATES_MAX: Final = 200
_EXCHANGED_MAX: Final = 8
# A larger share of the difference between two brokers is not worth copying: they would differ almost as much as before.
_DIFFERENCE_SHARE_MAX: Final = 0.75


class Rebalancer:
    """Rebalances an assignment. `movable` are the numbers of the partitions that may change."""

    def __init__(self, assignment: Assignment, movable: Collection[int]) -> None:
        self._assignment: Final = assignment
        self._movable: Final = frozenset(movable)
        self._steps_max: Final = 2 * sum(map(len, assignment.replicas))
        # Pairs of brokers without an allowed move. They are retried only when nothing else is left: racks may forbid
        # all of ten thousand partitions, and checking them at every step would be too slow.
        self._blocked_pairs: Final[set[tuple[int, int]]] = set()

    def spread_over_places(self) -> None:
        """Move replicas of a partition to different racks and hosts, as far as there are any. This comes first."""
        assignment = self._assignment
        for index in sorted(self._movable):
            while (change := self._separate(index)) is not None:
                assignment.apply(change)

    def balance_replicas(self, sources: Sequence[int], sinks: Sequence[int]) -> None:
        self._repeat(lambda: self._replica_step(sources, sinks))

    def balance_bytes(self, sources: Sequence[int], sinks: Sequence[int], *, exchanging: bool) -> None:
        """`exchanging` allows swapping a large replica for a small one, which keeps the number of replicas."""
        self._repeat(lambda: self._bytes_step(sources, sinks, exchanging))

    def balance_leaders(self) -> None:
        self._repeat(self._leader_step)

    def _repeat(self, step: Callable[[], Sequence[Change]]) -> None:
        self._blocked_pairs.clear()
        has_changed_since = False
        for _ in range(self._steps_max):
            changes = step()
            if not changes and not has_changed_since:
                return
            if not changes:
                self._blocked_pairs.clear()
            has_changed_since = bool(changes)
            for change in changes:
                self._assignment.apply(change)

    def _separate(self, index: int) -> Change | None:
        """Move a replica that shares its rack, else one that shares its host, first from the most loaded broker.

        It goes where the fewest places are shared, so that it moves only once.
        """
        assignment = self._assignment
        replicas = assignment.replicas[index]
        shared = assignment.shared_places(replicas)
        if shared == (0, 0):
            return None
        sharing = [
            broker
            for broker in replicas
            if broker in assignment.replica_counts and any(assignment.shares(replicas, broker))
        ]
        sinks = [broker for broker in self._by_replicas(assignment.targets) if broker not in replicas]
        for leaving in sorted(
            sharing,
            key=lambda broker: (assignment.shares(replicas, broker), assignment.replica_counts[broker], broker),
            reverse=True,
        ):
            changes = [assignment.replacement(index, leaving, coming) for coming in sinks]
            best = min(changes, key=lambda change: assignment.shared_places(change.replicas), default=None)
            if best is not None and assignment.shared_places(best.replicas) < shared:
                return best
        return None

    def _replica_step(self, sources: Sequence[int], sinks: Sequence[int]) -> Sequence[Change]:
        assignment = self._assignment
        for source in self._by_replicas(sources, most_first=True):
            for sink in self._by_replicas(sinks):
                if assignment.replica_counts[source] - assignment.replica_counts[sink] < 2:
                    break
                if (source, sink) in self._blocked_pairs:
                    continue
                # If the brokers' bytes differ too, moving half of the difference balances them best.
                wanted_bytes = max(0, assignment.bytes_on[source] - assignment.bytes_on[sink]) // 2
                for change in self._allowed_moves(source, sink, wanted_bytes):
                    if assignment.makes_nothing_worse([change]):
                        return [change]
                self._blocked_pairs.add((source, sink))
        return ()

    def _bytes_step(self, sources: Sequence[int], sinks: Sequence[int], exchanging: bool) -> Sequence[Change]:
        assignment = self._assignment
        for source in self._by_bytes(sources, most_first=True):
            for sink in self._by_bytes(sinks):
                difference = assignment.bytes_on[source] - assignment.bytes_on[sink]
                if difference <= assignment.bytes_tolerance:
                    break
                if (source, sink) in self._blocked_pairs:
                    continue
                for change in self._allowed_moves(source, sink, difference // 2):
                    if 0 < assignment.sizes[
                        change.number
                    ] <= difference * _DIFFERENCE_SHARE_MAX and assignment.makes_nothing_worse([change]):
                        return [change]
                if exchanging and (changes := self._exchange(source, sink, difference)):
                    return changes
                self._blocked_pairs.add((source, sink))
        return ()

    def _exchange(self, source: int, sink: int, difference: int) -> Sequence[Change]:
        """Swap a larger replica for a smaller one if the gain is at least half of the bytes copied."""
        assignment = self._assignment
        for back in islice(self._allowed_moves(sink, source, 0), _EXCHANGED_MAX):
            size_back = assignment.sizes[back.number]
            for there in self._allowed_moves(source, sink, size_back + difference // 2):
                gained = assignment.sizes[there.number] - size_back
                is_worth_it = 4 * min(gained, difference - gained) >= assignment.sizes[there.number] + size_back
                if gained > 0 and is_worth_it and assignment.makes_nothing_worse([back, there]):
                    return [back, there]
        return ()

    def _leader_step(self) -> Sequence[Change]:
        """Hand leadership along a chain of brokers, each of which is a follower of the one before in some partition."""
        assignment = self._assignment
        for source in sorted(assignment.targets, key=lambda broker: (-assignment.leader_counts[broker], broker)):
            reached_by: dict[int, tuple[int, int]] = {}
            waiting = deque([source])
            while waiting:
                leader = waiting.popleft()
                for index in assignment.led_by(leader):
                    if index not in self._movable:
                        continue
                    for follower in assignment.replicas[index][1:]:
                        if follower == source or follower in reached_by or follower not in assignment.leader_counts:
                            continue
                        reached_by[follower] = (leader, index)
                        if assignment.leader_counts[source] - assignment.leader_counts[follower] >= 2:
                            return self._hand_on(follower, source, reached_by)
                        waiting.append(follower)
        return ()

    def _hand_on(self, last: int, source: int, reached_by: dict[int, tuple[int, int]]) -> Sequence[Change]:
        changes = []
        while last != source:
            leader, index = reached_by[last]
            changes.append(Change(index, first_in(self._assignment.replicas[index], last)))
            last = leader
        return changes

    def _allowed_moves(self, source: int, sink: int, wanted_bytes: int) -> Iterator[Change]:
        """Yield the allowed moves from one broker to the other, the nearest in size first."""
        assignment = self._assignment
        allowed = (
            assignment.replacement(index, source, sink)
            for index in assignment.nearest_in_size(source, wanted_bytes)
            if index in self._movable and assignment.may_replace(index, source, sink)
        )
        return islice(allowed, _CANDIDATES_MAX)

    def _by_replicas(self, brokers: Sequence[int], *, most_first: bool = False) -> list[int]:
        assignment, sign = self._assignment, -1 if most_first else 1
        return sorted(
            brokers,
            key=lambda broker: (sign * assignment.replica_counts[broker], sign * assignment.bytes_on[broker], broker),
        )

    def _by_bytes(self, brokers: Sequence[int], *, most_first: bool = False) -> list[int]:
        assignment, sign = self._assignment, -1 if most_first else 1
        return sorted(brokers, key=lambda broker: (sign * assignment.bytes_on[broker], broker))
