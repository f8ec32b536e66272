"""Plans reassignments to drain brokers, to fill new ones, or to balance all. Pure and deterministic.

Every partition keeps its number of replicas, each on a different broker, and as far as possible on different racks and,
within a rack, on different hosts.
Nothing is copied that the purpose does not require.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from odradek.base.ids import TopicPartition
from odradek.client.assignment import Assignment
from odradek.client.placement import Place, PlacedPartition
from odradek.client.rebalancing import Rebalancer


class CannotPlan(Exception):
    """The plan is impossible. The message is one line for the user, without a final full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """The purposes of a plan, applied in this order."""

    drain: frozenset[int] = frozenset()
    """Move all replicas off these brokers."""
    fill: frozenset[int] = frozenset()
    """Move replicas to these brokers until they hold as much as the others."""
    even: bool = False
    """Balance replicas, leaders and bytes of all brokers, and spread replicas over racks and hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReassignment:
    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int
    """Size of one replica."""

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def bytes_to_copy(self) -> int:
        return len(self.adding) * self.size_bytes


def plan_reassignments(
    placed: Sequence[PlacedPartition],
    places: Mapping[int, Place],
    online: Collection[int],
    purpose: Purpose,
    *,
    topics: Collection[str] | None = None,
) -> list[PlannedReassignment]:
    """Plan the reassignments of `topics` or of all topics; the load of all topics counts in any case.

    `places` are those of all known brokers. Only brokers `online` receive replicas. Of the others, only drained brokers
    lose replicas.
    """
    placed = sorted(placed, key=lambda one: one.partition)
    targets = frozenset(online) - purpose.drain
    if not targets:
        raise CannotPlan("No broker would be left to move replicas to")
    movable = [index for index, one in enumerate(placed) if topics is None or one.partition.topic in topics]
    assignment = Assignment(placed, places, targets)
    _drain(assignment, placed, movable, purpose.drain)
    if purpose.fill & targets:
        _fill(assignment, movable, purpose.fill & targets)
    if purpose.even:
        _balance(assignment, movable)
    else:
        touched = [index for index in movable if set(assignment.replicas[index]) != set(placed[index].replicas)]
        Rebalancer(assignment, touched).balance_leaders()
    return [
        PlannedReassignment(partition=one.partition, before=one.replicas, after=after, size_bytes=one.size_bytes)
        for one, after in zip(placed, assignment.replicas, strict=True)
        if one.replicas != after
    ]


def _drain(
    assignment: Assignment, placed: Sequence[PlacedPartition], movable: Collection[int], drained: Collection[int]
) -> None:
    """Move the largest partitions first, so that small ones can balance the rest."""
    for index in sorted(movable, key=lambda index: (-assignment.sizes[index], index)):
        for leaving in placed[index].replicas:
            if leaving not in drained:
                continue
            replicas = assignment.replicas[index]
            candidates = [broker for broker in assignment.targets if broker not in replicas]
            if not candidates:
                raise CannotPlan(
                    f"{placed[index].partition} needs {len(replicas)} brokers for its replicas,"
                    f" but only {len(assignment.targets)} would be left"
                )
            coming = min(candidates, key=partial(_cost, assignment, index, leaving))
            assignment.apply(assignment.replacement(index, leaving, coming))


def _cost(assignment: Assignment, index: int, leaving: int, coming: int) -> tuple[tuple[int, int], int, int, int]:
    after = assignment.replacement(index, leaving, coming).replicas
    return (
        assignment.shared_places(after),
        assignment.replica_counts[coming],
        assignment.bytes_on[coming],
        coming,
    )


def _fill(assignment: Assignment, movable: Collection[int], filled: Collection[int]) -> None:
    rebalancer = Rebalancer(assignment, movable)
    sources = [broker for broker in assignment.targets if broker not in filled]
    rebalancer.balance_replicas(sources, sorted(filled))
    rebalancer.balance_bytes(sources, sorted(filled), exchanging=False)


def _balance(assignment: Assignment, movable: Collection[int]) -> None:
    rebalancer = Rebalancer(assignment, movable)
    rebalancer.spread_over_places()
    rebalancer.balance_replicas(assignment.targets, assignment.targets)
    rebalancer.balance_bytes(assignment.targets, assignment.targets, exchanging=True)
    rebalancer.balance_leaders()
