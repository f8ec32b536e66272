"""What a partition's records are read from, whichever it is: brokers or files."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from odradek.base.ids import TopicPartition
from odradek.client.consume import AbortedFilter
from odradek.records.batch import BatchHeader


class Chunk(NamedTuple):
    """Whole batches one behind the other, and who tells the aborted ones among them, if they are to be left out."""

    data: memoryview
    headers: list[BatchHeader]
    aborted: AbortedFilter | None
    is_checked: bool = False
    """Whether the CRCs are known to be right."""


class PartitionSource(Protocol):
    @property
    def partition(self) -> TopicPartition: ...

    @property
    def earliest_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """Of what may be read: behind it lies nothing, or what is not decided. Raises if what lies there is damaged."""

    @property
    def readable_offset(self) -> int:
        """The same without a look at what lies behind."""

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        """All batches that reach into the offsets, in order; perhaps a few more. Raises where they cannot be had."""


class OffsetsNotThere(Exception):
    """Offsets were asked for that the partition does not have (any more, or yet)."""
