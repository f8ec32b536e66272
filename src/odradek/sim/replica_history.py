"""The contents of replicas on disk, and how nodes ended: the input of the replica checkers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.core.metadata.records import MetadataRecord
from odradek.sim.history import Send
from odradek.sim.quorum_history import LogBatch
from odradek.sim.stored_log import StoredBatch


class MetadataEnd(NamedTuple):
    """The end of the longest metadata log among the voters."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The replicas of one partition at one time, by broker id."""

    seconds: float
    partition: TopicPartition
    metadata: MetadataEnd
    logs: Mapping[int, tuple[StoredBatch, ...]]
    high_watermarks: Mapping[int, int]
    """The checkpointed high watermarks; empty if they were not read."""
    unsynced: tuple[Send, frozenset[int]] | None = None
    """An acknowledged send, and the brokers that would lose it in a power loss now. None: the topic does not guarantee
    to survive that."""
    is_thorough: bool
    """Whether to check all acknowledged records, not only the latest."""


class UncleanEnd(NamedTuple):
    """An unclean shutdown of a broker."""

    broker_id: int
    seconds: float
    metadata: MetadataEnd


class IsrChange(NamedTuple):
    """An AlterPartition request that the controller accepted: the ISR with broker epochs."""

    topic_id: UUID
    partition: int
    partition_epoch: int
    """The partition epoch after the change."""
    broker_epochs: tuple[tuple[int, int], ...]
    seconds: float
    """When the controller responded."""


class CommittedRecord(NamedTuple):
    epoch: int
    offset: int
    record: MetadataRecord

    def is_since(self, end: MetadataEnd) -> bool:
        """A later leader may start below an uncommitted end: its epoch shows that its records are newer."""
        return (self.epoch, self.offset) >= (end.epoch, end.end_offset)


@dataclass(slots=True)
class ReplicaHistory:
    copies: Final[list[Copies]] = field(default_factory=list)
    unclean_ends: Final[list[UncleanEnd]] = field(default_factory=list)
    isr_changes: Final[list[IsrChange]] = field(default_factory=list)
    metadata: tuple[CommittedRecord, ...] = ()
    """All batches of the metadata log that the voters agree on at the end. Empty: they do not agree."""
    metadata_batches: tuple[LogBatch, ...] = ()
