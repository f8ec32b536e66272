"""A log on a simulated disk, read while it grows.

Reads files in Kafka's format, without the code that writes them. Decoded batches of a segment are kept as long as
nothing but its end changes.
"""

import re
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from crc32c import crc32c

from odradek.sim.disk import DirectoryNode, FileNode, Node, VirtualDisk

HEADER: Final = Struct(">qiibIhi")
"""Base offset, length, epoch, magic, checksum, attributes and last offset delta of a batch."""
CRC_COVERS_FROM: Final = 21
"""Offset, length and epoch of a batch come before it: Kafka's format has no checksum for them."""
_SIZE_OVERHEAD: Final = 12
_SEGMENT: Final = re.compile(r"\d{20}\.log\Z")


class _Batch(Protocol):
    @property
    def base_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...


Batch = TypeVar("Batch", bound=_Batch)
"""The decoded form of a batch."""


class StoredBatch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.base_offset}..{self.last_offset} of epoch {self.epoch}"


class StoredSegment(Generic[Batch]):
    """The batches of one file, either of the page cache or of its durable part."""

    def __init__(self, file: FileNode, outline: Callable[[bytes], Batch], *, durable: bool) -> None:
        self.file: Final = file
        self._bytes: Final = file.durable if durable else file.cached
        self._outline: Final = outline
        self._rewrites = -1
        self._size = 0
        self._read_up_to = 0
        self._batches: list[Batch] = []
        self._places: list[tuple[int, int]] = []

    @property
    def batches(self) -> list[Batch]:
        """The whole batches at its begin."""
        self._read_on()
        return self._batches

    @property
    def places(self) -> list[tuple[int, int]]:
        """Position and size of each batch."""
        self._read_on()
        return self._places

    def data(self, index: int) -> bytes:
        """Of one of the batches."""
        return self._bytes.read(*self._places[index])

    def data_from(self, offset: int) -> bytes:
        """Of those with this offset or later ones."""
        later = (
            place for batch, (place, _) in zip(self.batches, self._places, strict=True) if batch.last_offset >= offset
        )
        start = next(later, self._read_up_to)
        return self._bytes.read(start, self._read_up_to - start)

    def _read_on(self) -> None:
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
                self._batches.append(self._outline(data))
                self._read_up_to += len(data)


class _Listing(NamedTuple, Generic[Batch]):
    directory: DirectoryNode
    changes: int
    segments: list[StoredSegment[Batch]]


class StoredLog(Generic[Batch]):
    def __init__(self, disk: VirtualDisk, directory: str, outline: Callable[[bytes], Batch]) -> None:
        self._disk: Final = disk
        self._directory: Final = directory
        self._outline: Final = outline
        self._known: Final[dict[tuple[FileNode, bool], StoredSegment[Batch]]] = {}
        self._listed: Final[dict[bool, _Listing[Batch]]] = {}

    @property
    def exists(self) -> bool:
        return isinstance(self._disk.find(self._directory), DirectoryNode)

    # ---- as a process would find it

    def batches(self) -> tuple[Batch, ...]:
        """The batches of each segment up to the first incomplete one."""
        return tuple(batch for segment in self.segments() for batch in segment.batches)

    def last(self) -> Batch | None:
        return _last(self.segments())

    def data_from(self, offset: int) -> bytes:
        """Of all batches with this offset or later ones."""
        return b"".join(segment.data_from(offset) for segment in self.segments())

    def segments(self) -> list[StoredSegment[Batch]]:
        return self._segments(self._disk.find(self._directory), durable=False)

    def files(self) -> list[FileNode]:
        return [segment.file for segment in self.segments()]

    # ---- as it would be after a loss of power, at least

    def last_durable(self) -> Batch | None:
        return _last(self._durable_segments())

    def durable_batch(self, end_offset: int) -> Batch | None:
        """The batch that ends there."""
        for segment in reversed(self._durable_segments()):
            batches = segment.batches
            if batches and batches[0].base_offset < end_offset:
                return next((one for one in reversed(batches) if one.last_offset + 1 == end_offset), None)
        return None

    def _durable_segments(self) -> list[StoredSegment[Batch]]:
        return self._segments(self._disk.find_durable(self._directory), durable=True)

    def _segments(self, directory: Node | None, *, durable: bool) -> list[StoredSegment[Batch]]:
        """By name. Cached, because they are read often and rarely change."""
        if not isinstance(directory, DirectoryNode):
            return []
        listed = self._listed.get(durable)
        if listed is None or listed.directory is not directory or listed.changes != directory.changes:
            names = directory.durable if durable else directory.cached
            segments = [
                self._segment(file, durable=durable)
                for name, file in sorted(names.items())
                if _SEGMENT.match(name) and isinstance(file, FileNode)
            ]
            listed = self._listed[durable] = _Listing(directory, directory.changes, segments)
        return listed.segments

    def _segment(self, file: FileNode, *, durable: bool) -> StoredSegment[Batch]:
        found = self._known.get((file, durable))
        if found is None:
            found = self._known[file, durable] = StoredSegment(file, self._outline, durable=durable)
        return found


def _last(segments: list[StoredSegment[Batch]]) -> Batch | None:
    return next((segment.batches[-1] for segment in reversed(segments) if segment.batches), None)


def split(data: bytes) -> Iterator[bytes]:
    """The whole batches at its begin."""
    position = 0
    while len(data) - position >= HEADER.size:
        _, length, _, _, checksum, _, _ = HEADER.unpack_from(data, position)
        batch = data[position : position + length + _SIZE_OVERHEAD]
        is_whole = HEADER.size < length + _SIZE_OVERHEAD == len(batch)
        if not is_whole or crc32c(batch[CRC_COVERS_FROM:]) != checksum:
            return
        yield batch
        position += len(batch)


def stored_batch(data: bytes) -> StoredBatch:
    base_offset, _, epoch, _, checksum, _, last_delta = HEADER.unpack_from(data)
    return StoredBatch(base_offset, base_offset + last_delta, epoch, checksum)
