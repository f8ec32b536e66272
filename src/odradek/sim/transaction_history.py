"""Requests and responses of transactional producers, and what read_committed consumers read."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from odradek.base.ids import TopicPartition

NO_OFFSET: Final = -1


class Fate(Enum):
    """Of a transaction, as its producer knows it."""

    NEVER_COMMITTED = "never committed"
    """No commit was requested, or an abort was acknowledged."""
    COMMITTED = "committed"
    UNKNOWN = "unknown"
    """A commit was requested, and not acknowledged."""


@dataclass(slots=True, kw_only=True)
class TransactionalSend:
    partition: TopicPartition
    value: bytes
    began: float
    is_acknowledged: bool = False


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One transaction of one instance of a producer."""

    transactional_id: str
    instance: str
    number: int
    producer: tuple[int, int]
    began: float
    sends: list[TransactionalSend] = field(default_factory=list)
    group_offset: int = NO_OFFSET
    """Committed for the group of the instance, if it was."""
    fate: Fate = Fate.NEVER_COMMITTED
    ended: float | None = None

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.instance}"


class ProducerInitialized(NamedTuple):
    """An InitProducerId response."""

    transactional_id: str
    instance: str
    producer: tuple[int, int]
    seconds: float


class CommittedRead(NamedTuple):
    reader: str
    partition: TopicPartition
    offset: int
    value: bytes
    seconds: float


@dataclass(slots=True)
class TransactionHistory:
    attempts: Final[list[Attempt]] = field(default_factory=list)
    initialized: Final[list[ProducerInitialized]] = field(default_factory=list)
    reads: Final[list[CommittedRead]] = field(default_factory=list)
    group_offsets: Final[dict[str, int]] = field(default_factory=dict)
    """At the end, by instance."""
