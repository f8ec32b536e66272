"""Reads a topic's partitions from log directories that no broker uses, in chunks of bounded size.

Never writes or repairs anything. What a broker would have to recover first (a truncated batch, an unfinished
compaction) raises an error.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk
from odradek.client.consume import AbortedFilter
from odradek.host.disk import HostDisk, HostFile
from odradek.pipelines.arrow.sources import Chunk
from odradek.pipelines.arrow.transaction_outcomes import ScannedBatch, TransactionOutcomes, find_outcomes
from odradek.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, check_crc, parse_batches, parse_header
from odradek.storage.log.batch_file import BatchFile
from odradek.storage.log.checkpoints import LOG_START_OFFSET_CHECKPOINT, read_offsets
from odradek.storage.log.log_dir import LOCK_FILE
from odradek.storage.log.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_MAX,
    SWAP_SUFFIX,
    parse_offset_file,
    parse_partition_dir,
)

CHUNK_BYTES: Final = 4 * 1024 * 1024
_REPAIR_ADVICE: Final = "Start the directory's broker once to repair it, or read up to an earlier offset."


class ReadOnlyDisk(HostDisk):
    """Opens files read-only."""

    def open(self, path: str, *, create: bool = False, read_only: bool = True) -> HostFile:
        return super().open(path, create=create, read_only=True)


class DirectoryInUse(Exception):
    """A running broker uses the directory. Read its topics through the broker."""


class Segment:
    """One `.log` file with the offsets from `base_offset` to below `limit`, the start of the next segment."""

    def __init__(self, disk: Disk, path: str, base_offset: int, limit: int) -> None:
        self.path: Final = path
        self.base_offset: Final = base_offset
        self.limit: Final = limit
        self._file: Final = BatchFile(disk, path, disk.size(path))

    def headers(self) -> Iterator[BatchHeader]:
        """Yield the headers of all batches in order, with their positions. Raises CorruptBatch."""
        expected, position = self.base_offset, 0
        for header in self._file.headers():
            self._check_order(header, position, expected)
            position = header.position + header.size
            if position > self._file.size:
                break
            expected = header.next_offset
            yield header
        if position != self._file.size:
            raise self._corrupt(position, "incomplete record batch")

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[tuple[memoryview, list[BatchHeader]]]:
        found = self._find(from_offset)
        if found is None:
            return
        position = found
        expected = self.base_offset
        size = self._file.size
        while position < size:
            data = memoryview(self._file.read(position, min(CHUNK_BYTES, size - position)))
            headers = self._parse(data, position)
            if not headers:
                data = memoryview(self._file.read(position, self._batch_bytes(data, position)))
                headers = self._parse(data, position)
            for header in headers:
                self._check_order(header, position + header.position, expected)
                expected = header.next_offset
            yield data, headers
            position += headers[-1].position + headers[-1].size
            if expected >= to_offset:
                return

    def read_checked(self, header: BatchHeader) -> bytes:
        """Read a batch found by `headers` and check its CRC."""
        data = self._file.read(header.position, header.size)
        try:
            check_crc(data, parse_header(data))
        except CorruptBatch as error:
            raise self._corrupt(header.position, str(error)) from None
        return data

    def _find(self, offset: int) -> int | None:
        """Return the position of the first batch that reaches the offset, or None."""
        try:
            return self._file.find(offset, 0)
        except CorruptBatch as error:
            raise CorruptBatch(f"{error}. {_REPAIR_ADVICE}") from None

    def _parse(self, data: memoryview, position: int) -> list[BatchHeader]:
        try:
            return parse_batches(data, allow_partial_tail=True)
        except CorruptBatch as error:
            raise self._corrupt(position, str(error)) from None

    def _batch_bytes(self, data: memoryview, position: int) -> int:
        """Return the size of a batch that is larger than a chunk. Raises CorruptBatch if it is truncated."""
        left = self._file.size - position
        if len(data) < HEADER_SIZE or parse_header(data).size > left:
            raise self._corrupt(position, f"incomplete record batch of {left} bytes")
        return parse_header(data).size

    def _check_order(self, header: BatchHeader, position: int, expected: int) -> None:
        """The CRC does not cover the base offset, so check at least that offsets increase."""
        if header.base_offset < expected or header.last_offset_delta < 0 or header.next_offset > self.limit:
            raise self._corrupt(
                position,
                f"a batch has offsets {header.base_offset} to {header.last_offset}, "
                f"outside of the expected {expected} to {self.limit - 1}",
            )

    def _corrupt(self, position: int, what: str) -> CorruptBatch:
        return CorruptBatch(f"{self.path}, position {position}: {what}. {_REPAIR_ADVICE}")


class PartitionSegments:
    """A PartitionSource. With `read_committed`, it reads all headers before the first record."""

    def __init__(
        self, partition: TopicPartition, segments: Sequence[Segment], log_start: int, *, read_committed: bool
    ) -> None:
        self.partition: Final = partition
        self._segments: Final = segments
        self._read_committed: Final = read_committed
        self.earliest_offset: Final = max(log_start, segments[0].base_offset)

        self._damage: CorruptBatch | None = None

    @property
    def end_offset(self) -> int:
        readable = self.readable_offset
        if self._damage is not None:
            raise self._damage
        return readable

    @cached_property
    def readable_offset(self) -> int:
        if self._read_committed:
            first_open = self._outcomes.first_open_offset
            return self._outcomes.end_offset if first_open is None else first_open
        last = self._segments[-1]
        return find_outcomes(self._scan_until_damage([last]), last.base_offset).end_offset

    @cached_property
    def _outcomes(self) -> TransactionOutcomes:
        return find_outcomes(self._scan_until_damage(self._segments), self.earliest_offset)

    def _scan_until_damage(self, segments: Sequence[Segment]) -> Iterator[ScannedBatch]:
        """Check the CRC of transactional batches: a flipped bit in one could hide records."""
        try:
            for segment in segments:
                for header in segment.headers():
                    data = segment.read_checked(header) if header.is_transactional and self._read_committed else None
                    yield ScannedBatch(header, data if header.is_control else None)
        except CorruptBatch as error:
            self._damage = error

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        aborted = None
        if self._read_committed:
            aborted = AbortedFilter(tuple(one for one in self._outcomes.aborted if one.last_offset >= from_offset))
        for segment in self._segments:
            if segment.limit <= from_offset or segment.base_offset >= to_offset:
                continue
            for data, headers in segment.chunks(from_offset, to_offset):
                yield Chunk(data, headers, aborted)


def open_partitions(
    disk: Disk, directories: Iterable[str], topic: str, *, read_committed: bool
) -> dict[int, PartitionSegments]:
    """Find the partitions of a topic in these log directories. Raises DirectoryInUse, CorruptBatch, OSError."""
    found: dict[int, PartitionSegments] = {}
    for directory in directories:
        _check_unused(disk, directory)
        log_starts = read_offsets(disk, f"{directory}/{LOG_START_OFFSET_CHECKPOINT}")
        for name in disk.list_dir(directory):
            named = parse_partition_dir(name)
            if named is None or named.mark or named.topic_partition.topic != topic:
                continue
            partition = named.topic_partition
            if partition.partition in found:
                raise ValueError(f"{partition} is in more than one of the directories.")
            segments = _segments(disk, f"{directory}/{name}")
            if segments:
                found[partition.partition] = PartitionSegments(
                    partition, segments, log_starts.get(partition, 0), read_committed=read_committed
                )
    return found


def _segments(disk: Disk, path: str) -> list[Segment]:
    offsets = []
    for name in disk.list_dir(path):
        file = parse_offset_file(name)
        if file is None:
            continue
        if file.kind == LOG_SUFFIX and file.mark in (SWAP_SUFFIX, CLEANED_SUFFIX):
            raise CorruptBatch(f"{path}/{name}: unfinished compaction. Start the directory's broker once to finish it.")
        if file.kind == LOG_SUFFIX and not file.mark:
            offsets.append((file.offset, f"{path}/{name}"))
    offsets.sort()
    limits = [following[0] for _, following in pairwise(offsets)] + [OFFSET_MAX]
    return [Segment(disk, file, offset, limit) for (offset, file), limit in zip(offsets, limits, strict=False)]


def _check_unused(disk: Disk, directory: str) -> None:
    lock_file = f"{directory}/{LOCK_FILE}"
    if not disk.exists(lock_file):
        return
    try:
        disk.lock(lock_file).release()
    except BlockingIOError:
        raise DirectoryInUse(
            f"A running broker uses {directory}. Read the topic with bootstrap_servers=… instead."
        ) from None
    except PermissionError:
        # Without write permission the lock cannot be checked.
        return
