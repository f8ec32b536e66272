"""Which replicas to move, and where to: to empty brokers, to fill new ones, to let all carry alike.

Pure: a placement in, moves out, the same ones every time. Every partition keeps as many replicas as it has, on as many
brokers; nothing goes to a rack that holds another replica of the partition, as far as there are racks; and nothing is
copied that the purpose does not ask for.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from odradek.base.ids import TopicPartition
from odradek.client.assignment import Assignment
from odradek.client.evening import Evening
from odradek.client.placement import PlacedPartition


class CannotPlan(Exception):
    """What is asked for is not possible; the message is one line for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What a plan is for; several at once are taken in this order."""

    drain: frozenset[int] = frozenset()
    """These brokers shall hold nothing."""
    fill: frozenset[int] = frozenset()
    """These brokers shall hold as much as the others; nothing moves but to them."""
    even: bool = False
    """All brokers shall hold, lead and store alike, and no two replicas share a rack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int
    """Of one copy."""

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def bytes_to_copy(self) -> int:
        return len(self.adding) * self.size_bytes


def plan_moves(
    placed: Sequence[PlacedPartition],
    racks: Mapping[int, str | None],
    online: Collection[int],
    purpose: Purpose,
    *,
    topics: Collection[str] | None = None,
) -> list[Move]:
    """`racks` are of all brokers that are known; only those `online` get anything, and of those that are not, only
    drained ones lose anything. `topics`: only these are touched, though all of them count.
    """
    placed = sorted(placed, key=lambda one: one.partition)
    targets = frozenset(online) - purpose.drain
    if not targets:
        raise CannotPlan("no broker would be left to move anything to")
    movable = [index for index, one in enumerate(placed) if topics is None or one.partition.topic in topics]
    assignment = Assignment(placed, racks, targets)
    _drain(assignment, placed, movable, purpose.drain)
    if purpose.fill & targets:
        _fill(assignment, movable, purpose.fill & targets)
    if purpose.even:
        _even(assignment, movable)
    else:
        touched = [index for index in movable if set(assignment.replicas[index]) != set(placed[index].replicas)]
        Evening(assignment, touched).even_leaders()
    return [
        Move(partition=one.partition, before=one.replicas, after=after, size_bytes=one.size_bytes)
        for one, after in zip(placed, assignment.replicas, strict=True)
        if one.replicas != after
    ]


def _drain(
    assignment: Assignment, placed: Sequence[PlacedPartition], movable: Collection[int], drained: Collection[int]
) -> None:
    """The largest first: the small ones then fill what is left uneven."""
    for index in sorted(movable, key=lambda index: (-assignment.sizes[index], index)):
        for leaving in placed[index].replicas:
            if leaving not in drained:
                continue
            replicas = assignment.replicas[index]
            candidates = [broker for broker in assignment.targets if broker not in replicas]
            if not candidates:
                raise CannotPlan(
                    f"{placed[index].partition} has {len(replicas)} replicas,"
                    f" and only {len(assignment.targets)} brokers would be left for them"
                )
            coming = min(candidates, key=partial(_burden, assignment, index, leaving))
            assignment.apply(assignment.replacement(index, leaving, coming))


def _burden(assignment: Assignment, index: int, leaving: int, coming: int) -> tuple[int, int, int, int]:
    after = assignment.replacement(index, leaving, coming).replicas
    return (
        assignment.shared_racks(after),
        assignment.replica_counts[coming],
        assignment.bytes_on[coming],
        coming,
    )


def _fill(assignment: Assignment, movable: Collection[int], filled: Collection[int]) -> None:
    evening = Evening(assignment, movable)
    sources = [broker for broker in assignment.targets if broker not in filled]
    evening.even_replicas(sources, sorted(filled))
    evening.even_bytes(sources, sorted(filled), exchanging=False)


def _even(assignment: Assignment, movable: Collection[int]) -> None:
    evening = Evening(assignment, movable)
    evening.part_racks()
    evening.even_replicas(assignment.targets, assignment.targets)
    evening.even_bytes(assignment.targets, assignment.targets, exchanging=True)
    evening.even_leaders()
