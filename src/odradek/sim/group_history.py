"""Requests and responses of group members. Every committed offset of a run is unique and identifies its commit."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from odradek.base.ids import TopicPartition

NO_GENERATION: Final = -1
NO_OFFSET: Final = -1


@dataclass(slots=True, kw_only=True)
class Commit:
    """Without a response, or with an ambiguous error, it may take effect at any later time, or never."""

    group: str
    member: str
    generation: int
    """The generation id or the member epoch."""
    partition: TopicPartition
    offset: int
    began: float
    ended: float | None = None
    is_refused: bool = False

    def __str__(self) -> str:
        return f"{self.offset} of {self.group} for {self.partition} by {self.member} in generation {self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitView:
    """The committed offset of a partition that a coordinator returned."""

    coordinator: str
    group: str
    partition: TopicPartition
    offset: int
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The assignment of a member of a classic group."""

    group: str
    member: str
    generation: int
    share: tuple[int, ...]
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """The partitions that a member of a consumer group owns in a member epoch, from the response on."""

    group: str
    member: str
    epoch: int
    partitions: frozenset[TopicPartition]
    ended: float


@dataclass(slots=True)
class GroupHistory:
    commits: Final[list[Commit]] = field(default_factory=list)
    views: Final[list[CommitView]] = field(default_factory=list)
    shares: Final[list[Share]] = field(default_factory=list)
    member_assignments: Final[list[MemberAssignment]] = field(default_factory=list)
    _assigned: Final[dict[str, dict[str, frozenset[TopicPartition]]]] = field(default_factory=dict)
    _fully_assigned: Final[set[str]] = field(default_factory=set)
    _offsets: Final[Iterator[int]] = field(default_factory=lambda: count(1))

    def next_offset(self) -> int:
        return next(self._offsets)

    def record_assignment(self, assignment: MemberAssignment, client: str) -> None:
        self.member_assignments.append(assignment)
        self._assigned.setdefault(assignment.group, {})[client] = assignment.partitions

    def is_fully_assigned(self, group: str, partitions: frozenset[TopicPartition]) -> bool:
        """Whether all partitions have had one owner each at the same time since the first call."""
        held = [one for of_client in self._assigned.get(group, {}).values() for one in of_client]
        if len(held) == len(partitions) and set(held) == partitions:
            self._fully_assigned.add(group)
        return group in self._fully_assigned
