"""Segments of a metadata log on a virtual disk, read as Kafka lays them out: without the code that writes them.

A segment is read again and again while it grows, so what was read of it is kept as long as nothing but its end changes.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from crc32c import crc32c

from odradek.metadata.batches import read_metadata_batch
from odradek.metadata.records import MetadataRecord
from odradek.records.batch import parse_batches
from odradek.records.control import LeaderChange, LeaderChangeV0, Voters
from odradek.sim.disk import FileNode
from odradek.sim.quorum_history import LogBatch

_HEADER: Final = Struct(">qiibIhi")
_SIZE_OVERHEAD: Final = 12
CRC_COVERS_FROM: Final = 21
"""Offset, length and epoch of a batch come before it: nothing in Kafka's format tells that they are wrong."""
_IS_CONTROL: Final = 0x20


class SegmentReader:
    """Of one file, as the page cache has it or as it is durable."""

    def __init__(self, file: FileNode, *, durable: bool) -> None:
        self._bytes: Final = file.durable if durable else file.cached
        self._rewrites = -1
        self._size = 0
        self._read_up_to = 0
        self._batches: list[LogBatch] = []
        self._places: list[tuple[int, int]] = []

    @property
    def batches(self) -> list[LogBatch]:
        """The whole batches at its begin."""
        content = self._bytes
        if content.rewrites != self._rewrites:
            self._rewrites = content.rewrites
            self._read_up_to = self._size = 0
            self._batches, self._places = [], []
        if content.size != self._size:
            self._size = content.size
            start = self._read_up_to
            for data in split(content.read(start, content.size - start)):
                self._places.append((self._read_up_to, len(data)))
                self._batches.append(outline(data))
                self._read_up_to += len(data)
        return self._batches

    def records(self, index: int) -> Sequence[MetadataRecord]:
        """Of one of the batches."""
        return records_of(self._bytes.read(*self._places[index]))

    def place_of_last(self, count: int) -> tuple[int, int]:
        """Where the first of so many batches at the end lies, and how long it is."""
        assert self._batches is self.batches
        return self._places[-count]

    def size_of_last(self, count: int) -> int:
        """In bytes, of so many batches at the end."""
        assert self._batches is self.batches
        return sum(size for _, size in self._places[-count:]) if count else 0


def split(data: bytes) -> Iterator[bytes]:
    """The whole batches at its begin."""
    position = 0
    while len(data) - position >= _HEADER.size:
        size = _HEADER.unpack_from(data, position)[1] + _SIZE_OVERHEAD
        batch = data[position : position + size]
        if (
            size <= _SIZE_OVERHEAD
            or len(batch) < size
            or crc32c(batch[CRC_COVERS_FROM:]) != _HEADER.unpack_from(batch)[4]
        ):
            return
        yield batch
        position += size


def outline(data: bytes) -> LogBatch:
    base_offset, _, epoch, _, _, attributes, last_delta = _HEADER.unpack_from(data)
    leader_id, voter_ids = None, None
    if attributes & _IS_CONTROL:
        (header,) = parse_batches(data)
        for message in read_metadata_batch(data, header).control:
            if isinstance(message, LeaderChange | LeaderChangeV0):
                leader_id = message.leader_id
            elif isinstance(message, Voters):
                voter_ids = frozenset(voter.voter_id for voter in message.voters)
    return LogBatch(base_offset, base_offset + last_delta, epoch, crc32(data), leader_id, voter_ids)


def records_of(data: bytes) -> list[MetadataRecord]:
    return [record for header in parse_batches(data) for record in read_metadata_batch(data, header).records]
