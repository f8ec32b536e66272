"""What clients asked and heard, what disks held and what nodes promised each other: all that the checkers know.

Times are virtual seconds. What was never answered has no end, and may have happened or not, then or later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.sim.group_history import GroupHistory
from odradek.sim.quorum_history import QuorumHistory

UNKNOWN_EPOCH: Final = -1


class Outcome(Enum):
    UNKNOWN = "unknown"
    DONE = "done"
    REFUSED = "refused"


@dataclass(slots=True, kw_only=True)
class Send:
    """Records given to a producer together. It may have sent them several times, under one sequence number."""

    producer: str
    is_idempotent: bool
    partition: TopicPartition
    values: tuple[bytes, ...]
    began: float
    ended: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    leader_epoch: int = UNKNOWN_EPOCH
    """Who acknowledged it led in this one, or a later one; it may have been written in an earlier one."""
    reason: str = ""
    is_malformed: bool = False
    """Sent so that it has to be refused."""
    checksum: int = 0
    """Of its batch: what disks should hold of it."""

    def __str__(self) -> str:
        what = f"{self.producer} {self.partition} {name_of(self.values[0])}"
        if len(self.values) > 1:
            what += f"..{name_of(self.values[-1])}"
        return what


@dataclass(slots=True, kw_only=True)
class Read:
    """One answer to a fetch."""

    reader: str
    partition: TopicPartition
    fetch_offset: int
    began: float
    ended: float
    records: tuple[tuple[int, bytes], ...]
    high_watermark: int
    is_damaged: bool = False
    """Whether a checksum was wrong; `records` are those before it."""
    leader_epoch: int = UNKNOWN_EPOCH
    """Of the leader that answered."""
    epochs: tuple[int, ...] = ()
    """In which each of the records was written."""

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.records]


@dataclass(slots=True, kw_only=True)
class EndOffset:
    """One answer to a question for the latest offset."""

    partition: TopicPartition
    began: float
    ended: float
    offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    reader: str = ""


@dataclass(slots=True, kw_only=True)
class OutOfRange:
    """A reader was told that the partition does not reach to where it wanted to read."""

    partition: TopicPartition
    fetch_offset: int
    began: float
    ended: float
    leader_epoch: int = UNKNOWN_EPOCH


@dataclass(slots=True, kw_only=True)
class IsrView:
    """What the leader of a partition said itself of who is in sync with it."""

    partition: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    began: float
    ended: float


@dataclass(slots=True, kw_only=True)
class Deletion:
    """Of everything below an offset. Not answered: some of it may be gone."""

    partition: TopicPartition
    offset: int
    began: float
    ended: float | None = None
    leader_epoch: int = UNKNOWN_EPOCH
    """It was not done in a later one."""


class ChangeKind(Enum):
    CREATE = "create"
    DELETE = "delete"
    GROW = "grow"
    CONFIGURE = "configure"


@dataclass(slots=True, kw_only=True)
class Change:
    """A change of one topic's metadata. Its topic has no other author."""

    kind: ChangeKind
    topic: str
    partitions: int = 0
    value: str = ""
    began: float
    ended: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    reason: str = ""
    may_be_repeated: bool = False
    """Whether a broker hands it on, and does so again where the controller's answer is lost."""

    def __str__(self) -> str:
        detail = {ChangeKind.CREATE: str(self.partitions), ChangeKind.GROW: str(self.partitions)}
        return f"{self.kind.value} {self.topic} {detail.get(self.kind, self.value)}".rstrip()


@dataclass(slots=True, kw_only=True)
class View:
    """What a broker said of a topic: how many partitions it has, None if it does not exist; or its config's value."""

    topic: str
    began: float
    ended: float
    exists: bool
    partitions: int | None = None
    value: str | None = None
    broker: str = ""
    is_current: bool = True
    """Whether the broker has to know of everything that was answered; else it may be behind."""

    def __str__(self) -> str:
        if not self.exists:
            return f"no {self.topic} at {self.broker}"
        what = f"{self.partitions} partitions" if self.value is None else self.value
        return f"{self.topic} with {what} at {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Everything that a broker says of the cluster, as texts that are the same where it means the same."""

    broker: str
    facts: Mapping[str, str]


@dataclass(slots=True)
class History:
    # Told of every send that was answered, at that moment.
    on_acknowledged: Callable[[Send], None] = lambda send: None
    sends: Final[list[Send]] = field(default_factory=list)
    reads: Final[list[Read]] = field(default_factory=list)
    end_offsets: Final[list[EndOffset]] = field(default_factory=list)
    out_of_range: Final[list[OutOfRange]] = field(default_factory=list)
    isr_views: Final[list[IsrView]] = field(default_factory=list)
    deletions: Final[list[Deletion]] = field(default_factory=list)
    # Of each topic by one author.
    changes: Final[list[Change | View]] = field(default_factory=list)
    producer_ids: Final[list[tuple[str, int]]] = field(default_factory=list)
    quorum: Final[QuorumHistory] = field(default_factory=QuorumHistory)
    groups: Final[GroupHistory] = field(default_factory=GroupHistory)

    def may_be_deleted(self, partition: TopicPartition, until: float = inf) -> int:
        """What lies below this offset may be gone, and rightly so."""
        deletions = (one for one in self.deletions if one.partition == partition and one.began <= until)
        return max((one.offset for one in deletions), default=0)


def name_of(value: bytes) -> str:
    """What a client has put in front of the padding: no two values have the same."""
    return value.split(b"|")[0].decode(errors="replace")
