"""Reads a partition from its leader's segment files up to the end of a lease, and the rest from brokers.

Files are validated: the file is the leased one and unchanged, and its batches are complete and of no later leader
epoch. If a check fails, the rest of the partition is fetched from brokers.
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
    """The file is not, or no longer, the leased file."""


class _WatchedFile(HostFile):
    """Raises FileChanged if the file is modified while it is read."""

    __slots__ = ("_as_opened",)

    def watch(self, size: int) -> None:
        self._as_opened = self._state()
        if self._as_opened[0] != size:
            raise FileChanged(f"{self.path} has {self._as_opened[0]} bytes, but the lease is for {size}")

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        # After the read: a truncation or write before the read is visible by now.
        if self._state() != self._as_opened:
            raise FileChanged(f"{self.path} was modified")
        return data

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._open_descriptor().number)
        return found.st_size, found.st_mtime_ns


class _LeasedDisk(ReadOnlyDisk):
    """A disk with the one leased file."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def size(self, path: str) -> int:
        """Return the leased size: with the current size, a truncated file would look like one without records."""
        return self._size

    def open(self, path: str, *, create: bool = False, read_only: bool = True) -> HostFile:
        file = _WatchedFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC), self._no_wait)
        file.watch(self._size)
        return file


class LeasedSegments:
    """A PartitionSource. `brokers` serves what the files do not. `keep` is called repeatedly to renew the lease."""

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
        """Return the end of the files. There are no records between a file's last batch and its limit."""
        return self._held.files[-1].limit if self._begins_in_files(from_offset) else from_offset

    def _begins_in_files(self, offset: int) -> bool:
        """The first file may start before the log start offset, and those records must not be read."""
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
    """Holds the leases of one `read_topic` until it ends."""

    def __init__(self, cluster: Cluster, credentials: LeaseCredentials, *, read_committed: bool) -> None:
        self._leases: Final = LeaseClient(cluster, credentials)
        self._renewer: Final = LeaseRenewer(credentials)
        self._read_committed: Final = read_committed
        self._held: Final[list[Lease]] = []

    def source(self, brokers: PartitionFetch, start: int, end: int) -> PartitionSource:
        """Return a source that reads from files if a lease is granted, otherwise the brokers."""
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
