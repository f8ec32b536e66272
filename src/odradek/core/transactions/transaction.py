"""A transactional id as its coordinator keeps it: where it stands, and what it is on its way to."""

from odradek.base.ids import TopicPartition
from odradek.core.transactions.outcome import StandingWritten
from odradek.core.transactions.standing import Standing


class Transaction:
    __slots__ = ("failed_to_fence", "standing", "transactional_id", "unmarked", "writing")

    def __init__(self, transactional_id: str, standing: Standing) -> None:
        self.transactional_id = transactional_id
        self.standing = standing
        self.writing: StandingWritten | None = None
        """The step under way: its record is not committed yet, or cannot be written before the markers are."""
        self.unmarked: set[TopicPartition] = set()
        """Partitions that have not been told of the end."""
        self.failed_to_fence = False
        """The epoch has been raised, but no record of it could be written: it is nobody's, and raised enough."""

    @property
    def is_busy(self) -> bool:
        return self.writing is not None

    @property
    def is_waiting_for_markers(self) -> bool:
        return bool(self.unmarked)
