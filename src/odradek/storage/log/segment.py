"""One segment of a partition's log: the batch file and its three indexes.

It appends, searches and reads; it must not know producers, epochs or retention. Files are opened on first use and can
be released at any time. One writer; readers may run in other threads, because sizes and counts grow only after the
bytes are written.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from odradek.base.ports import Disk
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, parse_header
from odradek.records.decode import iterate_records, records_payload
from odradek.storage.log import names
from odradek.storage.log.batch_file import BatchFile
from odradek.storage.log.lazy_file import LazyFile
from odradek.storage.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from odradek.storage.log.time_index import TimeIndex, TimestampOffset
from odradek.storage.log.transaction_index import TransactionIndex


class FoundBatches(NamedTuple):
    """Whole batches in a segment."""

    position: int
    size: int
    # The offset after them; -1 if they reach the requested end.
    next_offset: int = -1


class TimestampedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class Segment:
    __slots__ = (
        "_disk",
        "_first_batch_timestamp",
        "_last_offset_max",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "index_interval_bytes",
        "is_ready_to_append",
        "log",
        "mark",
        "offset_index",
        "roll_jitter_ms",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: TopicConfig,
        *,
        size: int,
        now_ms: int,
        mark: str = "",
    ) -> None:
        """Opens no file. `mark` is the suffix of the file names: ".cleaned", ".swap" or empty."""
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.mark = mark
        self.created_ms = now_ms
        self.index_interval_bytes = config.index_interval_bytes
        self.roll_jitter_ms = _roll_jitter_ms(directory, base_offset, config)
        index_bytes = config.segment_index_bytes
        self.log = BatchFile(disk, self.path(names.LOG_SUFFIX), size)
        self.offset_index = OffsetIndex(disk, self.path(names.OFFSET_INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(disk, self.path(names.TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.transaction_index = TransactionIndex(disk, self.path(names.TRANSACTION_INDEX_SUFFIX), base_offset)
        self.bytes_since_index_entry = 0
        self._last_offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.is_ready_to_append = False
        """Whether the index files have their maximum size. They need not be open."""
        # None until it is read from the time index.
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = base_offset
        self._first_batch_timestamp: int | None = None

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, config: TopicConfig, *, now_ms: int, mark: str = ""
    ) -> "Segment":
        """A new, empty segment; overwrites files that a crash left under its names."""
        segment = cls(disk, directory, base_offset, config, size=0, now_ms=now_ms, mark=mark)
        segment.log.create()
        segment.log.note_end(base_offset)
        segment.offset_index.create()
        segment.time_index.create()
        if disk.exists(segment.transaction_index.path):
            disk.remove(segment.transaction_index.path)
        segment.transaction_index.has_no_file()
        segment._max_timestamp = NO_TIMESTAMP
        segment.is_ready_to_append = True
        return segment

    @classmethod
    def open(cls, disk: Disk, directory: str, base_offset: int, config: TopicConfig, *, now_ms: int) -> "Segment":
        path = f"{directory}/{names.offset_file(base_offset, names.LOG_SUFFIX)}"
        return cls(disk, directory, base_offset, config, size=disk.size(path), now_ms=now_ms)

    @property
    def size(self) -> int:
        return self.log.size

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{names.offset_file(self.base_offset, suffix)}{self.mark}"

    # ---- appending

    def has_room(
        self, bytes_to_append: int, last_offset: int, max_timestamp: int, now_ms: int, config: TopicConfig
    ) -> bool:
        """False if the batches need a new segment: size, age, a full index, or an offset out of range."""
        if not self.is_ready_to_append:
            self._prepare_append()
        size = self.log.size
        if size > config.segment_bytes - bytes_to_append or last_offset > self._last_offset_max:
            return False
        if size:
            first_timestamp = self._first_batch_timestamp
            if first_timestamp is None:
                first_timestamp = self.first_batch_timestamp
            age_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - self.created_ms
            if age_ms > config.max_segment_ms - self.roll_jitter_ms:
                return False
        offset_index, time_index = self.offset_index, self.time_index
        # The time index reserves one slot for the entry that `finish` adds.
        return offset_index.entries < offset_index.max_entries and time_index.entries < time_index.max_entries - 1

    def has_files_to_append(self, size: int, batch_count: int) -> bool:
        """Whether an append of this size writes to open files only. Most appends add no index entry: the index files of
        thousands of partitions stay closed."""
        if not self.is_ready_to_append or not self.log.handle.is_open:
            return False
        bytes_before_last = self.bytes_since_index_entry + (size if batch_count > 1 else 0)
        if bytes_before_last <= self.index_interval_bytes:
            return True
        return self.offset_index.handle.is_open and self.time_index.handle.is_open

    def append(self, data: bytes | bytearray | memoryview, batches: list[BatchHeader]) -> None:
        """Appends whole batches with their final offsets. After an OSError the segment is unchanged."""
        if not self.is_ready_to_append:
            self._prepare_append()
        start = position = self.log.size
        interval = self.index_interval_bytes
        since_entry = self.bytes_since_index_entry
        max_timestamp = self._max_timestamp
        if max_timestamp is None:
            max_timestamp = self._load_max_timestamp()
        offset_of_max = self._offset_of_max_timestamp
        offset_index, time_index = self.offset_index, self.time_index
        entries = times = 0
        entry_offset = entry_position = time_offset = last_offset = 0
        entry_time = time_index.last_timestamp
        for batch in batches:
            last_offset = batch.base_offset + batch.last_offset_delta
            if batch.max_timestamp > max_timestamp:
                max_timestamp = batch.max_timestamp
                offset_of_max = last_offset
            if since_entry > interval:
                # Index before log: uncounted index entries are ignored if the log append fails.
                if offset_index.entries + entries < offset_index.max_entries:
                    offset_index.write_ahead(entries, last_offset, position)
                    entries += 1
                    entry_offset, entry_position = last_offset, position
                if max_timestamp > entry_time and time_index.entries + times < time_index.max_entries - 1:
                    time_index.write_ahead(times, max_timestamp, offset_of_max)
                    times += 1
                    entry_time, time_offset = max_timestamp, offset_of_max
                since_entry = 0
            position += batch.size
            since_entry += batch.size
        if position - start != len(data):
            raise ValueError(f"{len(data)} bytes to append, but their batches have {position - start}")
        self.log.append(data, last_offset + 1)
        if start == 0:
            self._first_batch_timestamp = batches[0].max_timestamp
        if entries:
            offset_index.commit(entries, entry_offset, entry_position)
        if times:
            time_index.commit(times, entry_time, time_offset)
        self.bytes_since_index_entry = since_entry
        self._max_timestamp = max_timestamp
        self._offset_of_max_timestamp = offset_of_max

    def _prepare_append(self) -> None:
        """For a segment opened from disk: extends the index files."""
        self.offset_index.reserve()
        self.time_index.reserve()
        self.is_ready_to_append = True

    def finish(self) -> None:
        """Ends appending: adds the max timestamp to the time index and trims the indexes."""
        self.time_index.append_if_later(self._load_max_timestamp(), self._offset_of_max_timestamp)
        self.offset_index.trim()
        self.time_index.trim()
        self.transaction_index.trim()
        self.is_ready_to_append = False

    # ---- timestamps

    def _load_max_timestamp(self) -> int:
        """For the writer only: a value that a reader found must not replace that of a later append."""
        timestamp = self._max_timestamp
        if timestamp is None:
            timestamp, self._offset_of_max_timestamp = self.max_timestamp
            self._max_timestamp = timestamp
        return timestamp

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The max timestamp and the last offset of the batch that has it; -1 if there is none."""
        # Read both together: an append changes them together.
        timestamp, offset = self._max_timestamp, self._offset_of_max_timestamp
        if timestamp is None:
            index = self.time_index
            index.load()
            timestamp, offset = index.last_timestamp, index.last_offset
        return TimestampOffset(timestamp, offset)

    @property
    def largest_timestamp_ms(self) -> int:
        """The time that retention uses: the max timestamp, or the file's modification time if batches have none."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.log.path)

    @property
    def first_batch_timestamp(self) -> int:
        """The max timestamp of the first batch; -1 if it has none, or there is no batch."""
        timestamp = self._first_batch_timestamp
        if timestamp is None:
            if self.log.size < HEADER_SIZE:
                return NO_TIMESTAMP
            timestamp = parse_header(self.log.read(0, HEADER_SIZE)).max_timestamp
            self._first_batch_timestamp = timestamp
        return timestamp

    def find_timestamp(self, timestamp: int, from_offset: int) -> TimestampedOffset | None:
        """The first record at or after `from_offset` with this or a later timestamp."""
        indexed = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(indexed.offset, from_offset)).position
        for header in self.log.headers(position):
            if header.max_timestamp < timestamp or header.last_offset < from_offset:
                continue
            for offset, record_timestamp in self._record_timestamps(header):
                if record_timestamp >= timestamp and offset >= from_offset:
                    return TimestampedOffset(record_timestamp, offset, header.leader_epoch)
        return None

    def find_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the max timestamp of the segment."""
        greatest = self.max_timestamp
        if greatest.timestamp < 0:
            return None
        for header in self.log.headers(self.offset_index.lookup(greatest.offset).position):
            if header.max_timestamp == greatest.timestamp:
                for offset, timestamp in self._record_timestamps(header):
                    if timestamp == greatest.timestamp:
                        return TimestampedOffset(timestamp, offset, header.leader_epoch)
        return None

    def _record_timestamps(self, header: BatchHeader) -> Iterator[tuple[int, int]]:
        if header.timestamp_type_is_append:
            # Every record has the batch's timestamp.
            for offset in range(header.base_offset, header.next_offset):
                yield offset, header.max_timestamp
            return
        data = self.log.read(header.position, header.size)
        own = parse_header(data)
        for record in iterate_records(records_payload(data, own), own):
            yield record.offset, record.timestamp

    # ---- reading

    def find(self, offset: int, *, cached: bool = False) -> int | None:
        """The position of the first batch that ends at or after `offset`; None if the segment ends before it."""
        return self.log.find(offset, self.offset_index.lookup(offset, cached=cached).position, cached)

    def position_of(self, offset: int, *, cached: bool = False) -> int:
        """The position of the batch that starts at `offset`; the segment's size if it ends before."""
        position = self.log.known_position(offset)
        if position is None:
            position = self.find(offset, cached=cached)
        return self.log.size if position is None else position

    def find_batches(
        self, offset: int, max_bytes: int, end_position: int, *, min_one_message: bool, cached: bool
    ) -> FoundBatches | None:
        """Whole batches from the first that ends at or after `offset`, up to `end_position`, the start of a batch.

        None if the segment ends before `offset`. With `min_one_message` the first batch is found even if it is
        longer than `max_bytes`.
        """
        log = self.log
        start = log.known_position(offset)
        if start is None:
            start = self.find(offset, cached=cached)
            if start is None:
                return None
        if start >= end_position:
            return FoundBatches(start, 0) if start < log.size else None
        if end_position - start <= max_bytes:
            return FoundBatches(start, end_position - start)
        limit = start + max_bytes
        walk_from = max(start, self.offset_index.lookup_position(limit, cached=cached).position)
        end, next_offset = log.fit(start, walk_from, limit, end_position, min_one_message, cached)
        return FoundBatches(start, end - start, next_offset)

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """See BatchFile.batches."""
        return self.log.batches(position)

    def next_offset(self) -> int:
        """The offset after the last batch, read from the file."""
        self.offset_index.load()
        next_offset = self.base_offset
        for header in self.log.headers(self.offset_index.last_position):
            next_offset = header.next_offset
        return next_offset

    # ---- truncation and recovery

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Removes everything from `offset` on."""
        position = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.log.truncate(self.log.size if position is None else position)
        if self.log.size == 0:
            self.created_ms = now_ms
            self._first_batch_timestamp = None
        self.bytes_since_index_entry = 0
        self._max_timestamp, self._offset_of_max_timestamp = self._scan_max_timestamp()
        self.is_ready_to_append = False

    def _scan_max_timestamp(self) -> TimestampOffset:
        """The max of the last time index entry and the batches after it."""
        timestamp, offset = self.time_index.last_timestamp, self.time_index.last_offset
        for header in self.log.headers(self.offset_index.lookup(offset).position):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        return TimestampOffset(timestamp, offset)

    def reset_indexes(self) -> None:
        """Before recovery rebuilds them."""
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = self.base_offset
        self.bytes_since_index_entry = 0

    def index_batch(self, header: BatchHeader, position: int) -> None:
        """Adds a batch that is already in the file to the indexes, exactly as `append` would have."""
        last_offset = header.last_offset
        max_timestamp = self._load_max_timestamp()
        if header.max_timestamp > max_timestamp:
            max_timestamp = self._max_timestamp = header.max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self.bytes_since_index_entry > self.index_interval_bytes:
            if not self.offset_index.is_full:
                self.offset_index.append(last_offset, position)
            if not self.time_index.is_full:
                self.time_index.append_if_later(max_timestamp, self._offset_of_max_timestamp)
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += header.size

    # ---- files

    def sync(self) -> None:
        """Syncs only the batches: the indexes of an active segment are rebuilt after a crash."""
        self.log.sync()

    def sync_indexes(self) -> None:
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    @property
    def is_unsynced(self) -> bool:
        return any(file.is_unsynced for file in self._files)

    def release(self) -> None:
        """Closes the descriptors of files without unsynced data; the next use reopens the files."""
        for file in self._files:
            file.release()

    def abandon(self) -> None:
        """Closes all descriptors: the files are deleted, or their disk failed."""
        for file in self._files:
            file.abandon()
        self.is_ready_to_append = False

    @property
    def _files(self) -> tuple[LazyFile, ...]:
        return self.log.handle, self.offset_index.handle, self.time_index.handle, self.transaction_index.handle

    def is_idle(self) -> bool:
        """Whether files without unsynced data are open that were not used since the previous call."""
        was_used, self.log.used = self.log.used, False
        return not was_used and any(file.is_open and not file.is_unsynced for file in self._files)

    def move_to(self, directory: str) -> None:
        """The directory was renamed; open descriptors stay valid."""
        self.directory = directory
        self._set_paths()

    def rename_mark(self, mark: str) -> None:
        """Renames the segment's files, for example to ".deleted". The caller syncs the directory if necessary."""
        # Opened before, so that no reader opens a name that is changing.
        for file in (self.log, self.offset_index, self.time_index):
            file.file()
        for suffix in names.SEGMENT_SUFFIXES:
            source = self.path(suffix)
            if self._disk.exists(source):
                target = f"{self.directory}/{names.offset_file(self.base_offset, suffix)}{mark}"
                self._disk.rename(source, target, durable=False)
        self.mark = mark
        self._set_paths()
        if mark == names.DELETED_SUFFIX:
            self.abandon()
        else:
            self.release()

    def _set_paths(self) -> None:
        self.log.path = self.path(names.LOG_SUFFIX)
        self.offset_index.path = self.path(names.OFFSET_INDEX_SUFFIX)
        self.time_index.path = self.path(names.TIME_INDEX_SUFFIX)
        self.transaction_index.path = self.path(names.TRANSACTION_INDEX_SUFFIX)

    def remove_files(self) -> None:
        self.abandon()
        for suffix in names.SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if self._disk.exists(path):
                self._disk.remove(path)

    def __repr__(self) -> str:
        return f"Segment({self.log.path}, {self.log.size} bytes)"


def _roll_jitter_ms(directory: str, base_offset: int, config: TopicConfig) -> int:
    """Spreads the rolls of many partitions over segment.jitter.ms; deterministic, so that it survives a restart."""
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    if jitter_max <= 0:
        return 0
    return zlib.crc32(f"{directory.rpartition('/')[2]}:{base_offset}".encode()) % jitter_max
