"""What members of groups asked and heard. Every offset that is committed in a run is another: it tells whose it is."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from odradek.base.ids import TopicPartition

NO_GENERATION: Final = -1
NO_OFFSET: Final = -1


@dataclass(slots=True, kw_only=True)
class Commit:
    """Not answered, or with an error that leaves it open: it may have happened or not, then or later."""

    group: str
    member: str
    generation: int
    """Or member epoch."""
    partition: TopicPartition
    offset: int
    began: float
    ended: float | None = None
    is_refused: bool = False

    def __str__(self) -> str:
        return f"{self.offset} of {self.group} for {self.partition} by {self.member} in generation {self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitView:
    """What a coordinator said of a partition."""

    coordinator: str
    group: str
    partition: TopicPartition
    offset: int
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a member was given of the group's work."""

    group: str
    member: str
    generation: int
    share: tuple[int, ...]
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """What a member of a consumer group has, from when it heard of it on, in one of its epochs."""

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
        """Whether everything has had one owner at once, since this was first asked."""
        held = [one for of_client in self._assigned.get(group, {}).values() for one in of_client]
        if len(held) == len(partitions) and set(held) == partitions:
            self._fully_assigned.add(group)
        return group in self._fully_assigned
