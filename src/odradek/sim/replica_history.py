"""What disks held of replicated partitions, and how nodes ended: all that the checkers of replicas know."""

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
    """Up to where the metadata log went: of the voter whose log went farthest."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Every broker's log of one partition at one moment, by its id; those that have none are left out."""

    seconds: float
    partition: TopicPartition
    metadata: MetadataEnd
    logs: Mapping[int, tuple[StoredBatch, ...]]
    high_watermarks: Mapping[int, int]
    """As brokers had written them down; none where that was not looked at."""
    unsynced: tuple[Send, frozenset[int]] | None = None
    """Something that was just acknowledged, and the brokers that a loss of power would take it from. None: a topic that
    does not promise to survive that."""
    is_thorough: bool
    """Whether everything that was acknowledged is to be looked for, not only the latest."""


class UncleanEnd(NamedTuple):
    """A broker's process was ended by something else than itself."""

    broker_id: int
    seconds: float
    metadata: MetadataEnd


class IsrChange(NamedTuple):
    """What a leader asked for, and the controller agreed to: who is in sync, and in which of its lives."""

    topic_id: UUID
    partition: int
    partition_epoch: int
    """That the partition has with the change."""
    broker_epochs: tuple[tuple[int, int], ...]
    seconds: float
    """When the controller agreed."""


class CommittedRecord(NamedTuple):
    epoch: int
    offset: int
    record: MetadataRecord

    def is_since(self, end: MetadataEnd) -> bool:
        """A later leader may begin below an end that was never committed: its epoch tells that this is newer."""
        return (self.epoch, self.offset) >= (end.epoch, end.end_offset)


@dataclass(slots=True)
class ReplicaHistory:
    copies: Final[list[Copies]] = field(default_factory=list)
    unclean_ends: Final[list[UncleanEnd]] = field(default_factory=list)
    isr_changes: Final[list[IsrChange]] = field(default_factory=list)
    metadata: tuple[CommittedRecord, ...] = ()
    """From the first record on, as the cluster has agreed on it in the end. Empty: it has not."""
    metadata_batches: tuple[LogBatch, ...] = ()
