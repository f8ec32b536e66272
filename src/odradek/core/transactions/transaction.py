"""A transactional id with its metadata and its pending transition."""

from odradek.base.ids import TopicPartition
from odradek.core.transactions.coordinator_result import MetadataWritten
from odradek.core.transactions.transaction_metadata import TransactionMetadata


class Transaction:
    __slots__ = ("has_failed_epoch_fence", "metadata", "partitions_without_marker", "pending_write", "transactional_id")

    def __init__(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.metadata = metadata
        self.pending_write: MetadataWritten | None = None
        """The next metadata: its record is not committed yet, or waits until the markers are written."""
        self.partitions_without_marker: set[TopicPartition] = set()
        self.has_failed_epoch_fence = False
        """The epoch was incremented, but the record of that could not be written: no client has this epoch, so that
        it need not be incremented again."""

    @property
    def has_pending_transition(self) -> bool:
        return self.pending_write is not None

    @property
    def is_waiting_for_markers(self) -> bool:
        return bool(self.partitions_without_marker)
