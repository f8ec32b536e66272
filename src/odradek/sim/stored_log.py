"""A log as it lies on a virtual disk, read while it grows.

Reads files as Kafka lays them out, without the code that writes them. What was read before is not read again, unless
its end has become another one.
"""

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from odradek.sim.disk import DirectoryNode, FileNode, VirtualDisk

_HEADER: Final = Struct(">qiibIhi")
_SIZE_OVERHEAD: Final = 12
_CRC_COVERS_FROM: Final = 21
_SEGMENT: Final = re.compile(r"\d{20}\.log\Z")


class StoredBatch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.base_offset}..{self.last_offset} of epoch {self.epoch}"


class _Segment:
    def __init__(self, file: FileNode) -> None:
        self.file: Final = file
        self._forget()

    def _forget(self) -> None:
        self.batches: list[StoredBatch] = []
        self.places: list[tuple[int, int]] = []
        self._end = 0
        self._last_header = b""

    def read_on(self) -> None:
        content = self.file.cached
        if self.places and content.read(self.places[-1][0], _HEADER.size) != self._last_header:
            self._forget()
        while True:
            header = content.read(self._end, _HEADER.size)
            if len(header) < _HEADER.size:
                return
            base_offset, length, epoch, _, checksum, _, last_delta = _HEADER.unpack(header)
            size = length + _SIZE_OVERHEAD
            if size <= _HEADER.size or self._end + size > content.size:
                return
            if crc32c(content.read(self._end + _CRC_COVERS_FROM, size - _CRC_COVERS_FROM)) != checksum:
                return
            self.batches.append(StoredBatch(base_offset, base_offset + last_delta, epoch, checksum))
            self.places.append((self._end, size))
            self._last_header = header
            self._end += size


class StoredLog:
    def __init__(self, disk: VirtualDisk, directory: str) -> None:
        self._disk: Final = disk
        self._directory: Final = directory
        self._segments: dict[str, _Segment] = {}

    @property
    def exists(self) -> bool:
        return isinstance(self._disk.find(self._directory), DirectoryNode)

    def batches(self) -> tuple[StoredBatch, ...]:
        """Up to the first that is not whole."""
        return tuple(batch for segment in self._read_on() for batch in segment.batches)

    def with_bytes(self) -> Iterator[tuple[StoredBatch, bytes]]:
        for segment in self._read_on():
            for batch, (position, size) in zip(segment.batches, segment.places, strict=True):
                yield batch, segment.file.cached.read(position, size)

    def last(self) -> StoredBatch | None:
        return next((segment.batches[-1] for segment in reversed(self._read_on()) if segment.batches), None)

    def durably_has(self, base_offset: int, checksum: int) -> bool:
        """Whether a loss of power would leave this batch."""
        names = [name for name in self._disk.durable_names(self._directory) if _SEGMENT.match(name)]
        below = [name for name in names if int(name.removesuffix(".log")) <= base_offset]
        if not below:
            return False
        data = self._disk.durable_bytes(f"{self._directory}/{below[-1]}") or b""
        position = 0
        while len(data) - position >= _HEADER.size:
            found, length, _, _, its_checksum, _, _ = _HEADER.unpack_from(data, position)
            if found >= base_offset or length <= 0:
                is_it = (found, its_checksum) == (base_offset, checksum)
                return is_it and position + length + _SIZE_OVERHEAD <= len(data)
            position += length + _SIZE_OVERHEAD
        return False

    def _read_on(self) -> list[_Segment]:
        directory = self._disk.find(self._directory)
        entries = directory.cached if isinstance(directory, DirectoryNode) else {}
        former, self._segments = self._segments, {}
        for name in sorted(entries):
            file = entries[name]
            if _SEGMENT.match(name) and isinstance(file, FileNode):
                segment = former.get(name)
                self._segments[name] = segment if segment is not None and segment.file is file else _Segment(file)
        for segment in self._segments.values():
            segment.read_on()
        return list(self._segments.values())
