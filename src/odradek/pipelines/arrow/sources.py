"""The interface for reading a partition, from brokers or from files."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from odradek.base.ids import TopicPartition
from odradek.client.consume import AbortedFilter
from odradek.records.batch import BatchHeader


class Chunk(NamedTuple):
    """Consecutive complete batches, and the filter of aborted batches if these must be skipped."""

    data: memoryview
    headers: list[BatchHeader]
    aborted: AbortedFilter | None
    is_checked: bool = False
    """Whether the CRCs have been checked."""


class PartitionSource(Protocol):
    @property
    def partition(self) -> TopicPartition: ...

    @property
    def earliest_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """The end of the readable records: the log end or last stable offset. Raises if the log is damaged there."""

    @property
    def readable_offset(self) -> int:
        """The same, but ends before damage instead of raising."""

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        """Yield all batches that overlap the offsets, and possibly a few more, in order."""


class OffsetsNotThere(Exception):
    """The partition no longer has, or does not yet have, the requested offsets."""
