"""What the checkers use: requests and responses of clients, contents of disks, and messages between nodes.

Times are virtual seconds. A request without a response has no end time, and may take effect later, or never.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.sim.group_history import GroupHistory
from odradek.sim.quorum_history import QuorumHistory
from odradek.sim.security_history import SecurityHistory

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
    """The leader acknowledged it in this epoch or a later one; it may have been appended in an earlier one."""
    reason: str = ""
    is_malformed: bool = False
    """Brokers must reject it."""
    checksum: int = 0
    """The CRC of its batch."""

    def __str__(self) -> str:
        what = f"{self.producer} {self.partition} {name_of(self.values[0])}"
        if len(self.values) > 1:
            what += f"..{name_of(self.values[-1])}"
        return what


@dataclass(slots=True, kw_only=True)
class Read:
    """One Fetch response."""

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
    """The epoch of the leader that responded."""
    epochs: tuple[int, ...] = ()
    """The leader epoch of each record."""

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.records]


@dataclass(slots=True, kw_only=True)
class EndOffset:
    """One ListOffsets response with the latest offset."""

    partition: TopicPartition
    began: float
    ended: float
    offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    reader: str = ""


@dataclass(slots=True, kw_only=True)
class OutOfRange:
    """A Fetch response with OFFSET_OUT_OF_RANGE."""

    partition: TopicPartition
    fetch_offset: int
    began: float
    ended: float
    leader_epoch: int = UNKNOWN_EPOCH


@dataclass(slots=True, kw_only=True)
class IsrView:
    """The ISR as the leader of the partition described it."""

    partition: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    began: float
    ended: float


@dataclass(slots=True, kw_only=True)
class Deletion:
    """A DeleteRecords request. Without a response, some of the records may be deleted."""

    partition: TopicPartition
    offset: int
    began: float
    ended: float | None = None
    leader_epoch: int = UNKNOWN_EPOCH
    """The deletion was not done in a later epoch."""


class ChangeKind(Enum):
    CREATE = "create"
    DELETE = "delete"
    GROW = "grow"
    CONFIGURE = "configure"


@dataclass(slots=True, kw_only=True)
class Change:
    """A change of a topic that no other client changes."""

    kind: ChangeKind
    topic: str
    partitions: int = 0
    value: str = ""
    began: float
    ended: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    reason: str = ""
    may_be_repeated: bool = False
    """Whether a broker forwards it, and forwards it again if the response of the controller is lost."""

    def __str__(self) -> str:
        detail = {ChangeKind.CREATE: str(self.partitions), ChangeKind.GROW: str(self.partitions)}
        return f"{self.kind.value} {self.topic} {detail.get(self.kind, self.value)}".rstrip()


@dataclass(slots=True, kw_only=True)
class View:
    """A topic as a broker described it: the number of partitions, or the value of its config."""

    topic: str
    began: float
    ended: float
    exists: bool
    partitions: int | None = None
    value: str | None = None
    broker: str = ""
    is_current: bool = True
    """Whether the broker must show every acknowledged change; otherwise its metadata may be behind."""

    def __str__(self) -> str:
        if not self.exists:
            return f"no {self.topic} at {self.broker}"
        what = f"{self.partitions} partitions" if self.value is None else self.value
        return f"{self.topic} with {what} at {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The whole cluster as a broker describes it, as texts that can be compared."""

    broker: str
    facts: Mapping[str, str]


@dataclass(slots=True)
class History:
    # Called when a send is acknowledged.
    on_acknowledged: Callable[[Send], None] = lambda send: None
    sends: Final[list[Send]] = field(default_factory=list)
    reads: Final[list[Read]] = field(default_factory=list)
    end_offsets: Final[list[EndOffset]] = field(default_factory=list)
    out_of_range: Final[list[OutOfRange]] = field(default_factory=list)
    isr_views: Final[list[IsrView]] = field(default_factory=list)
    deletions: Final[list[Deletion]] = field(default_factory=list)
    # Each topic is changed by one client only.
    changes: Final[list[Change | View]] = field(default_factory=list)
    producer_ids: Final[list[tuple[str, int]]] = field(default_factory=list)
    quorum: Final[QuorumHistory] = field(default_factory=QuorumHistory)
    groups: Final[GroupHistory] = field(default_factory=GroupHistory)
    security: Final[SecurityHistory] = field(default_factory=SecurityHistory)

    def may_be_deleted(self, partition: TopicPartition, until: float = inf) -> int:
        """Records below this offset may be deleted."""
        deletions = (one for one in self.deletions if one.partition == partition and one.began <= until)
        return max((one.offset for one in deletions), default=0)


def name_of(value: bytes) -> str:
    """The unique prefix of a value, without the padding."""
    return value.split(b"|")[0].decode(errors="replace")
