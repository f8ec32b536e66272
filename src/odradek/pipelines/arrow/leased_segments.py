"""A partition read from its leader's files as far as a lease goes, and from brokers behind that, or instead.

What a file gives is checked before it is handed on: it is the file that was leased, unchanged, its batches are whole
and of no later leader. Whatever is not as it should be ends the reading of files, not of the partition.
"""

import logging
import os
from collections.abc import Callable, Iterator
from typing import Final

from odradek.base.ids import TopicPartition, uuid_to_text
from odradek.client.cluster import Cluster
from odradek.client.consume import AbortedFilter
from odradek.client.leases import Lease, LeaseClient, LeaseCredentials, LeasedFile, LeaseRenewer, NoLease
from odradek.host.disk import HostFile
from odradek.pipelines.arrow.brokers import PartitionFetch
from odradek.pipelines.arrow.segments import ReadOnlyDisk, Segment
from odradek.pipelines.arrow.sources import Chunk, PartitionSource
from odradek.records.batch import BatchHeader, CorruptBatch, check_crc

_log = logging.getLogger(__name__)


class FileChanged(OSError):
    """Not what was leased, or not any more."""


class _WatchedFile(HostFile):
    """A file that nobody may write to."""

    __slots__ = ("_as_opened",)

    def watch(self, size: int) -> None:
        self._as_opened = self._state()
        if self._as_opened[0] != size:
            raise FileChanged(f"{self.path} has {self._as_opened[0]} bytes, but the lease is for {size}")

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        # Behind the bytes: had somebody cut or written it before they were read, it would show by now.
        if self._state() != self._as_opened:
            raise FileChanged(f"{self.path} was modified")
        return data

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._open_descriptor().number)
        return found.st_size, found.st_mtime_ns


class _LeasedDisk(ReadOnlyDisk):
    """Has one file."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def size(self, path: str) -> int:
        """As leased: were it asked for, a file that was emptied would be one without records."""
        return self._size

    def open(self, path: str, *, create: bool = False, read_only: bool = True) -> HostFile:
        file = _WatchedFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC), self._no_wait)
        file.watch(self._size)
        return file


class LeasedSegments:
    """A PartitionSource. `brokers` is used from where the files end, or cannot be read; `keep` is called meanwhile."""

    def __init__(
        self,
        held: Lease,
        brokers: PartitionSource,
        *,
        read_committed: bool,
        keep: Callable[[Lease], None] = lambda _: None,
    ) -> None:
        self.partition: Final[TopicPartition] = held.partition
        self._held: Final = held
        self._brokers: Final = brokers
        self._read_committed: Final = read_committed
        self._keep: Final = keep

    @property
    def earliest_offset(self) -> int:
        return self._brokers.earliest_offset

    @property
    def end_offset(self) -> int:
        return self._brokers.end_offset

    @property
    def readable_offset(self) -> int:
        return self._brokers.readable_offset

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        position = from_offset
        try:
            for chunk in self._from_files(from_offset, to_offset):
                position = max(position, chunk.headers[-1].next_offset)
                yield chunk
            position = max(position, min(self._file_end(from_offset), to_offset))
        except (OSError, CorruptBatch) as error:
            _log.warning("Reading %s from brokers from offset %d: %s", self.partition, position, error)
        if position < to_offset:
            yield from self._brokers.chunks(position, to_offset)

    def _file_end(self, from_offset: int) -> int:
        """How far files go without a gap; offsets behind a file's last batch are empty, and need no look elsewhere."""
        return self._held.files[-1].limit if self._begins_in_files(from_offset) else from_offset

    def _begins_in_files(self, offset: int) -> bool:
        """What the log had forgotten when the lease was granted is still in its first file, and not to be read."""
        return max(self._held.log_start_offset, self._held.files[0].base_offset) <= offset

    def _from_files(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        if not self._begins_in_files(from_offset):
            return
        aborted = None
        if self._read_committed:
            aborted = AbortedFilter(tuple(one for one in self._held.aborted if one.last_offset >= from_offset))
        for file in self._held.files:
            if file.limit <= from_offset or file.base_offset >= to_offset:
                continue
            for data, headers in _open(file).chunks(from_offset, to_offset):
                self._keep(self._held)
                self._check(file, data, headers)
                yield Chunk(data, headers, aborted, is_checked=True)

    def _check(self, file: LeasedFile, data: memoryview, headers: list[BatchHeader]) -> None:
        for header in headers:
            check_crc(data, header)
            if header.leader_epoch > self._held.leader_epoch:
                raise FileChanged(f"{file.path} has a batch of a later leader epoch at offset {header.base_offset}")


def _open(file: LeasedFile) -> Segment:
    return Segment(_LeasedDisk(file.size), file.path, file.base_offset, file.limit)


class LeaseHolder:
    """The leases of one reading that goes from partition to partition, all of them until its end."""

    def __init__(self, cluster: Cluster, credentials: LeaseCredentials, *, read_committed: bool) -> None:
        self._leases: Final = LeaseClient(cluster, credentials)
        self._renewer: Final = LeaseRenewer(credentials)
        self._read_committed: Final = read_committed
        self._held: Final[list[Lease]] = []

    def source(self, brokers: PartitionFetch, start: int, end: int) -> PartitionSource:
        """What reads from files as far as a lease was to be had."""
        try:
            held = self._leases.request(
                brokers.partition,
                start=start,
                end=end,
                read_committed=self._read_committed,
                topic_id="" if brokers.topic_id is None else uuid_to_text(brokers.topic_id),
            )
        except NoLease as error:
            _log.warning("Reading from brokers instead of segment files: %s", error)
            return brokers
        if held is None:
            return brokers
        self._held.append(held)
        return LeasedSegments(held, brokers, read_committed=self._read_committed, keep=self._keep)

    def close(self) -> None:
        self._renewer.release(self._held)
        self._held.clear()

    def _keep(self, _: Lease) -> None:
        for held in self._held:
            self._renewer.renew_if_due(held)
