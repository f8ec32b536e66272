"""One partition's log: segments, producer state and leader epochs, in Kafka's file formats, through the Disk port.

One writer at a time; reads, searches and `flush` may run in other threads meanwhile. It never reads the clock and
starts no threads: blocking I/O runs in the caller's thread. Callers validate batches (CRC, size, timestamps); this
class reads records only in transaction markers. After an OSError the log is unchanged, and the caller handles the
error.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple, TypeVar
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import BatchHeader, CorruptBatch, patch_offset_and_epoch
from odradek.storage.log import names, reading, retention
from odradek.storage.log.deleted_files import DeletedFiles
from odradek.storage.log.durability import Durability
from odradek.storage.log.file_range import RangeEnded
from odradek.storage.log.index_file import WouldWait
from odradek.storage.log.leader_epochs import LeaderEpochs
from odradek.storage.log.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.log.partition_metadata import agree_on_topic_id, sync_identity, write_topic_id
from odradek.storage.log.producer_batch_lookup import precedes_known_batches, restore_batches
from odradek.storage.log.producer_entry import SequencedBatch
from odradek.storage.log.producer_state import Origin, ProducerState, StagedProducers, is_abort_marker
from odradek.storage.log.reading import LogRange, LogRead
from odradek.storage.log.recovery import LoadedLog, LogLoader, Progress, rebuild_producers
from odradek.storage.log.segment import Segment, TimestampedOffset
from odradek.storage.log.segment_swap import finish_swap, mark_swapped
from odradek.storage.log.transaction_index import AbortedTransaction
from odradek.storage.log.verification import Verification

T = TypeVar("T")

PRODUCER_ID_EXPIRATION_MS = 86_400_000


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    # The batch is a duplicate: the offsets and the max timestamp are those of the stored batch.
    duplicate: bool = False
    timestamp: int = -1
    # If a segment was closed: the offset up to which a flush is due; otherwise -1.
    rolled_at: int = -1


class PartitionLog:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        loaded: LoadedLog,
    ) -> None:
        """Internal: use `open`."""
        self._disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        # Replaced, never modified, so that readers in other threads see a consistent list.
        self.segments: Sequence[Segment] = loaded.segments
        self._active = loaded.segments[-1]
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self._assert_segments_in_order()
        self._assert_start_within_log()
        self._durability = Durability(disk, loaded.recovery_point)
        for segment in loaded.reindexed:
            self._durability.on_segment_closed(segment)
        # Whether a clean shutdown has anything to write.
        self._changed = not loaded.untouched
        is_empty_as_left = loaded.untouched and loaded.log_end_offset == 0
        # The log never had a record, so its files need not be synced.
        self._is_pristine = loaded.had_no_files or is_empty_as_left
        self.truncation_count = 0
        """Incremented when a truncation begins and when it ends: it is odd meanwhile. A read that overlaps a truncation
        must be repeated."""
        # Whether the directory, its name and its topic ID are synced.
        self._is_directory_synced = loaded.untouched and not is_empty_as_left
        self.producers: ProducerState = loaded.producers
        self.epochs: LeaderEpochs = loaded.epochs
        self._deleted_files = DeletedFiles(disk)
        self._is_renamed = False
        self.is_deleted = False
        """If true, the files may be removed at any moment, even while they are read."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        recovery_point: int | None = 0,
        was_compacted: bool = False,
        log_start_offset: int = 0,
        had_clean_shutdown: bool = False,
        now_ms: int,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        progress: Progress | None = None,
    ) -> "PartitionLog":
        """Opens or creates the log in `directory`, with recovery after an unclean shutdown.

        `recovery_point` is None if it is not known which records were flushed.
        """
        is_new = not disk.is_dir(directory)
        if is_new:
            disk.make_dirs(directory, durable=False)
            if topic_id is not None:
                write_topic_id(disk, directory, topic_id)
        else:
            topic_id = agree_on_topic_id(disk, directory, topic_partition, topic_id)
        loaded = LogLoader(
            disk,
            directory,
            topic_partition=topic_partition,
            config=config,
            recovery_point=recovery_point,
            was_compacted=was_compacted,
            log_start_offset=log_start_offset,
            had_clean_shutdown=had_clean_shutdown,
            now_ms=now_ms,
            producer_id_expiration_ms=producer_id_expiration_ms,
            progress=progress,
        ).load(is_new=is_new)
        log = cls(disk, directory, topic_partition, topic_id, config, loaded)
        if log.recovery_point < log.log_end_offset and (recovery_point is None or config.flush_messages <= 1):
            # Records that the last run did not sync will be served now, so they must survive a power loss. Or the log
            # may have gaps: below the next recovery point they are not mistaken for the result of a power loss.
            log.flush()
        log.release_files()
        return log

    @property
    def recovery_point(self) -> int:
        """Recovery after a crash has to scan from the segment that contains this offset."""
        return self._durability.recovery_point(self.log_end_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def active_segment(self) -> Segment:
        return self._active

    def adopt(self, topic_id: UUID) -> None:
        """Sets the topic ID of a log that had none. May block on the disk."""
        write_topic_id(self._disk, self.directory, topic_id)
        self.topic_id = topic_id
        self._is_directory_synced = False
        if self.log_end_offset > 0:
            # Existing records may be acknowledged already, and from now on the directory is identified by the topic ID.
            self.flush()

    def update_config(self, config: TopicConfig) -> None:
        """Index sizes and intervals apply from the next segment on, everything else immediately."""
        self.config = config

    # ---- appending

    def thread_waits(self) -> int:
        """See `Disk.thread_waits`."""
        return self._disk.thread_waits()

    def append_as_leader(
        self,
        data: bytearray | memoryview,
        batches: list[BatchHeader],
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
        verifies: bool = False,
        has_room: bool = False,
    ) -> Appended:
        """Assigns offsets and the leader epoch, in `data` and in the headers, and appends the batches.

        With `verifies`, the first batch of a transaction needs the `verification` that its coordinator confirmed.
        `has_room`: `can_append_quickly` has just returned True for these batches.
        """
        first_offset = offset = self.log_end_offset
        staged: StagedProducers | None = None
        for batch in batches:
            patch_offset_and_epoch(data, batch, offset, leader_epoch)
            if batch.producer_id >= 0:
                if origin is Origin.CLIENT:
                    duplicate = self._find_duplicate(batch)
                    if duplicate is not None:
                        return Appended(duplicate.first_offset, duplicate.last_offset, True, duplicate.timestamp)
                if staged is None:
                    staged = self.producers.stage(origin, transaction_version)
                if verifies and batch.is_transactional and not batch.is_control:
                    self._check_verified(batch, verification, origin)
                staged.add(batch, data)
            offset += batch.last_offset_delta + 1
        latest_epoch = self.epochs.latest_epoch
        if leader_epoch != latest_epoch:
            assert latest_epoch is None or leader_epoch > latest_epoch, (
                f"{self.topic_partition}: leader epoch decreased from {latest_epoch} to {leader_epoch}"
            )
            self.epochs.assign(leader_epoch, first_offset)
        return self._append(data, batches, first_offset, offset, staged, now_ms, has_room)

    def can_append_quickly(
        self, size: int, batches: list[BatchHeader], data: bytes | memoryview, now_ms: int, *, leader_epoch: int | None
    ) -> bool:
        """Whether an append only writes to open files. Otherwise it may block for as long as the disk needs to open,
        create or sync one. `size` is that of all batches; `leader_epoch` is None for a follower's append."""
        segment = self._active
        if not segment.has_files_to_append(size, len(batches)):
            return False
        if len(batches) == 1:
            # The most frequent case by far.
            batch = batches[0]
            max_timestamp, offsets = batch.max_timestamp, batch.last_offset_delta + 1
            needs_files = batch.producer_id >= 0 and self._may_need_files(batch, data)
        else:
            batch = batches[-1]
            max_timestamp = max(one.max_timestamp for one in batches)
            offsets = sum(one.last_offset_delta + 1 for one in batches)
            needs_files = any(one.producer_id >= 0 and self._may_need_files(one, data) for one in batches)
        if leader_epoch is None:
            last_offset = batch.last_offset
            starts_epoch = any(one.leader_epoch != self.epochs.latest_epoch for one in batches)
        else:
            last_offset = self.log_end_offset + offsets - 1
            starts_epoch = leader_epoch != self.epochs.latest_epoch
        if needs_files or starts_epoch:
            return False
        return segment.has_room(size, last_offset, max_timestamp, now_ms, self.config)

    def _may_need_files(self, batch: BatchHeader, data: bytes | memoryview) -> bool:
        """For an abort marker those of the transaction index, for an early batch those that may contain it."""
        if batch.is_control:
            return is_abort_marker(batch, data)
        entry = self.producers.producers.get(batch.producer_id)
        return (
            entry is not None
            and entry.producer_id not in self.producers.looked_up
            and precedes_known_batches(batch, entry)
        )

    def _check_verified(self, batch: BatchHeader, verification: Verification | None, origin: Origin) -> None:
        producers = self.producers
        if not producers.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):
            entry = producers.producers.get(batch.producer_id)
            # For an older epoch, the epoch check reports the error.
            if entry is None or batch.producer_epoch >= entry.epoch:
                producers.verifications.check(batch.producer_id, verification, by_client=origin is Origin.CLIENT)

    def _find_duplicate(self, batch: BatchHeader) -> SequencedBatch | None:
        producers = self.producers
        found = producers.find_duplicate(batch)
        if found is None:
            entry = producers.producers.get(batch.producer_id)
            if (
                entry is not None
                and entry.producer_id not in producers.looked_up
                and precedes_known_batches(batch, entry)
            ):
                producers.looked_up.add(entry.producer_id)
                restore_batches(self.segments, entry)
                found = producers.find_duplicate(batch)
        return found

    def append_as_follower(
        self, data: bytes | bytearray | memoryview, batches: list[BatchHeader], *, now_ms: int
    ) -> Appended:
        """Appends a leader's batches with their offsets and epochs."""
        next_offset = self.log_end_offset
        staged: StagedProducers | None = None
        for batch in batches:
            if batch.base_offset < next_offset:
                raise KafkaError(
                    ErrorCode.offset_out_of_range,
                    f"Unexpected offset in append to {self.topic_partition}: {batch.base_offset} is less than the next "
                    f"offset {next_offset}",
                )
            next_offset = batch.next_offset
            if batch.producer_id >= 0:
                if staged is None:
                    staged = self.producers.stage(Origin.REPLICATION)
                staged.add(batch, data)
        for batch in batches:
            if batch.leader_epoch >= 0 and batch.leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(batch.leader_epoch, batch.base_offset)
        return self._append(data, batches, batches[0].base_offset, next_offset, staged, now_ms)

    def _append(
        self,
        data: bytes | bytearray | memoryview,
        batches: list[BatchHeader],
        first_offset: int,
        end_offset: int,
        staged: StagedProducers | None,
        now_ms: int,
        has_room: bool = False,
    ) -> Appended:
        assert self.log_end_offset <= first_offset < end_offset, (
            f"{self.topic_partition}: offsets {first_offset} to {end_offset} appended at {self.log_end_offset}"
        )
        size = len(data)
        config = self.config
        segment = self._active
        rolled_at = -1
        max_timestamp = batches[0].max_timestamp if len(batches) == 1 else max(one.max_timestamp for one in batches)
        if not has_room and not segment.has_room(size, end_offset - 1, max_timestamp, now_ms, config):
            if size > config.segment_bytes:
                raise KafkaError(
                    ErrorCode.record_list_too_large,
                    f"Message batch size is {size} bytes in append to partition {self.topic_partition}, which exceeds "
                    f"the maximum configured segment size of {config.segment_bytes}.",
                )
            # At the log end, even if the leader's compaction left a gap here: to recovery a gap between two segments
            # shows that records were lost.
            is_in_range = end_offset - 1 - self.log_end_offset <= RELATIVE_OFFSET_MAX
            segment = self.roll(now_ms, 0 if is_in_range else first_offset)
            rolled_at = segment.base_offset
        producers = self.producers
        if staged is None:
            segment.append(data, batches)
        else:
            aborted = self._write_aborted(segment, staged) if staged.completed else []
            segment.append(data, batches)
            if aborted:
                segment.transaction_index.commit(aborted)
            producers.apply(staged)
        producers.end_offset = end_offset
        self.log_end_offset = end_offset
        self._changed = True
        self._is_pristine = False
        return Appended(first_offset, end_offset - 1, rolled_at=rolled_at)

    def _write_aborted(self, segment: Segment, staged: StagedProducers) -> list[AbortedTransaction]:
        """Before the append, so that the log never contains an abort marker that is missing in the index."""
        aborted: list[AbortedTransaction] = []
        for ended in staged.completed:
            if ended.aborted:
                stable_offset = self.producers.stable_offset_after(staged, ended)
                entry = AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable_offset)
                segment.transaction_index.write_ahead(len(aborted), entry)
                aborted.append(entry)
        return aborted

    def roll(self, now_ms: int, at_least: int = 0) -> Segment:
        """Closes the active segment and starts a new one at the log end. Keeps an empty active segment."""
        base_offset = max(self.log_end_offset, at_least)
        active = self._active
        if base_offset == active.base_offset:
            return active
        # A snapshot at the base offset of the new segment: recovery of that segment starts from it.
        self.producers.end_offset = base_offset
        self.producers.take_snapshot(sync=False)
        active.finish()
        segment = Segment.create(self._disk, self.directory, base_offset, self.config, now_ms=now_ms)
        self._durability.on_segment_closed(active)
        assert base_offset > active.base_offset, f"{self.topic_partition}: segment {base_offset} is out of order"
        self.segments = [*self.segments, segment]
        self._active = segment
        self._changed = True
        return segment

    # ---- reading

    def read(self, offset: int, max_bytes: int, *, end_offset_exclusive: int, min_one_message: bool = True) -> LogRead:
        """Whole batches from the one that contains `offset` on, below the end offset. May block on the disk."""
        return self._retry_on_change(
            lambda: self._find(offset, max_bytes, end_offset_exclusive, min_one_message, cached=False).read(
                cached=False
            ),
        )

    def find_batches(
        self, offset: int, max_bytes: int, *, end_offset_exclusive: int, min_one_message: bool = True
    ) -> LogRange:
        """Finds what `read` returns, without reading it. May block on the disk."""
        return self._retry_on_change(
            lambda: self._find(offset, max_bytes, end_offset_exclusive, min_one_message, cached=False),
        )

    def _retry_on_change(self, look: Callable[[], T]) -> T:
        """Repeats a read while files are renamed or truncated during it."""
        while True:
            segments, truncation_count = self.segments, self.truncation_count
            try:
                found = look()
            except FileNotFoundError:
                if self._is_renamed:
                    # The directory was renamed: the partition is deleted, or was moved to another log dir.
                    raise KafkaError(ErrorCode.not_leader_or_follower) from None
                if self.segments is segments and self._was_stable_since(truncation_count):
                    raise
                # Retention or compaction replaced the segment; the next attempt reads the new list.
            except RangeEnded:
                if self.segments is segments and self._was_stable_since(truncation_count):
                    # The whole log was removed.
                    raise KafkaError(ErrorCode.not_leader_or_follower) from None
            except CorruptBatch:
                if self._was_stable_since(truncation_count):
                    raise
            else:
                # Otherwise the bytes may have been truncated and overwritten meanwhile.
                if self._was_stable_since(truncation_count):
                    return found
            if self.truncation_count % 2:
                # Waiting could take as long as a sync: the client retries.
                raise KafkaError(ErrorCode.offset_not_available, f"{self.topic_partition} is being truncated")

    def _was_stable_since(self, truncation_count: int) -> bool:
        """Whether no truncation was running then, and none has started since."""
        return truncation_count % 2 == 0 and self.truncation_count == truncation_count

    def read_cached(
        self, offset: int, max_bytes: int, *, end_offset_exclusive: int, min_one_message: bool = True
    ) -> LogRead | None:
        """Like `read`, but None if that would block on the disk."""
        found = self.find_cached_batches(
            offset, max_bytes, end_offset_exclusive=end_offset_exclusive, min_one_message=min_one_message
        )
        try:
            return None if found is None else found.read(cached=True)
        except (WouldWait, RangeEnded, CorruptBatch):
            return None

    def find_cached_batches(
        self, offset: int, max_bytes: int, *, end_offset_exclusive: int, min_one_message: bool = True
    ) -> LogRange | None:
        """Like `find_batches`, but None if that would block on the disk. The batches themselves may be cold."""
        truncation_count = self.truncation_count
        try:
            found = self._find(offset, max_bytes, end_offset_exclusive, min_one_message, cached=True)
        except WouldWait:
            return None
        except (FileNotFoundError, CorruptBatch):
            # The methods that may block handle these errors.
            return None
        return found if self._was_stable_since(truncation_count) else None

    def _find(self, offset: int, max_bytes: int, end_offset: int, min_one_message: bool, cached: bool) -> LogRange:
        log_end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > log_end_offset:
            self._raise_out_of_range(offset)
        if end_offset > log_end_offset:
            end_offset = log_end_offset
        return reading.find_batches(
            self.segments, offset, max_bytes, end_offset, min_one_message=min_one_message, cached=cached
        )

    def _raise_out_of_range(self, offset: int) -> None:
        bound = (
            f"starting from offset: {self.log_start_offset}."
            if offset < self.log_start_offset
            else f"upto {self.log_end_offset}."
        )
        raise KafkaError(
            ErrorCode.offset_out_of_range,
            f"Received request for offset {offset} for partition {self.topic_partition}, but we only have log segments "
            f"{bound}",
        )

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record with this or a later timestamp."""
        return self._retry_on_change(lambda: reading.find_timestamp(self.segments, timestamp, self.log_start_offset))

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the max timestamp of the log."""
        return self._retry_on_change(lambda: reading.find_max_timestamp(self.segments))

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [from, to), ordered by their markers."""
        return self._retry_on_change(lambda: reading.aborted_transactions(self.segments, from_offset, to_offset))

    def knows_aborted_transactions(self, from_offset: int) -> bool:
        """Whether `aborted_transactions` reads nothing from the disk, because the indexes are in memory."""
        segments = self.segments
        slot = reading.floor_slot(segments, from_offset)
        return all(one.transaction_index.is_loaded for one in segments[slot:])

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; a marker above the high watermark ends it too."""
        return self.producers.first_undecided_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is complete, and its marker is committed."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    # ---- durability

    def flush(self, up_to_offset: int | None = None) -> None:
        """Syncs everything below the offset, by default the log end."""
        target = self.log_end_offset if up_to_offset is None else min(up_to_offset, self.log_end_offset)
        if not self._is_directory_synced:
            # If the directory entry or the topic ID were lost in a power loss, so would be the batches.
            sync_identity(self._disk, self.directory, self.topic_id)
            self._is_directory_synced = True
        # Epochs first: recovery does not read them from flushed batches.
        self.epochs.write_if_changed()
        self._flush_segments(target)
        self.producers.snapshots.sync()

    def _flush_segments(self, target: int) -> None:
        while True:
            segments, truncation_count = self.segments, self.truncation_count
            try:
                self._durability.flush(segments, self.directory, target)
            except FileNotFoundError:
                if self.segments is segments and self._was_stable_since(truncation_count):
                    raise
                # Retention or a truncation removed a segment: sync the remaining ones.
            else:
                return

    # ---- truncation and retention

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Truncates the log to `offset` and syncs. False if it already ended there.

        The next append overwrites the truncated batches: after a power loss none of them may follow it.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        segments = self.segments
        if segments[0].base_offset > offset:
            self.truncate_fully_to(offset, now_ms)
            return True
        kept = [segment for segment in segments if segment.base_offset <= offset]
        with self._change_in_place():
            # Before files are renamed: a reader that misses a file then finds the new segment list.
            self.segments = kept
            self._active = kept[-1]
            self._changed = True
            if len(kept) < len(segments):
                self._mark_segments_deleted(segments[len(kept) :], now_ms)
                self._disk.sync_dir(self.directory)
            self._active.truncate_to(offset, now_ms)
            self._active.sync()
            self._active.log.note_end(offset)
            self.log_end_offset = offset
            self._durability.on_truncation(offset, self._active)
            self.log_start_offset = min(self.log_start_offset, offset)
            self._assert_start_within_log()
            self.epochs.truncate_from_end(offset)
            # Readers use the old state meanwhile: it may contain too many open transactions, never too few.
            producers = self.producers.copy()
            rebuild_producers(producers, kept, self.log_start_offset, offset, now_ms)
            self.producers = producers
        return True

    def truncate_fully_to(self, offset: int, now_ms: int, *, log_start_offset: int | None = None) -> None:
        """Deletes all segments and restarts the log at `offset`."""
        with self._change_in_place():
            self._mark_segments_deleted(self.segments, now_ms)
            segment = Segment.create(self._disk, self.directory, offset, self.config, now_ms=now_ms)
            self.segments = [segment]
            self._active = segment
            self._is_pristine = False
            self.log_end_offset = offset
            self._durability.on_truncation(offset, self._active)
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            self.epochs.clear()
            self.producers.restart_at(offset)
            self.producers.take_snapshot(sync=False)

    @contextmanager
    def _change_in_place(self) -> Iterator[None]:
        """Reads that overlap with this are repeated, or fail."""
        self.truncation_count += 1
        try:
            yield
        finally:
            self.truncation_count += 1

    def advance_log_start(self, offset: int) -> bool:
        """Hides the records below; `delete_old_segments` deletes whole segments later. False if nothing changes."""
        if offset <= self.log_start_offset:
            return False
        assert offset <= self.log_end_offset, (
            f"{self.topic_partition}: log start {offset} is above the log end {self.log_end_offset}"
        )
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.advance_log_start(offset)
        return True

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Deletes the segments that exceed retention or are below the log start; returns their number."""
        start_before = self.log_start_offset
        deleted = sum(self._delete_first(count, now_ms) for count in retention.steps(self, now_ms, high_watermark))
        assert self.log_start_offset <= max(start_before, high_watermark), (
            f"{self.topic_partition}: retention moved the log start {self.log_start_offset} above the high watermark "
            f"{high_watermark}"
        )
        return deleted

    def _delete_first(self, count: int, now_ms: int) -> int:
        if count == 0:
            return 0
        if count == len(self.segments):
            self.roll(now_ms)
        deleted, kept = self.segments[:count], self.segments[count:]
        # The log start first: then no reader needs the deleted segments.
        self.advance_log_start(kept[0].base_offset)
        self.segments = kept
        self._mark_segments_deleted(deleted, now_ms)
        return count

    def _mark_segments_deleted(
        self, segments: Sequence[Segment], now_ms: int, keep_snapshots_of: Iterable[int] = ()
    ) -> None:
        """Renames the files to `.deleted`; `remove_deleted` removes them after file.delete.delay.ms."""
        remove_at_ms = now_ms + self.config.file_delete_delay_ms
        kept = set(keep_snapshots_of)
        self._durability.on_segments_removed(segments)
        for segment in segments:
            segment.rename_mark(names.DELETED_SUFFIX)
            for suffix in names.SEGMENT_SUFFIXES:
                on_remove = segment.log.end_ranges if suffix == names.LOG_SUFFIX else None
                self._deleted_files.add(segment.path(suffix), remove_at_ms, on_remove)
            if segment.base_offset not in kept:
                snapshot = self.producers.snapshots.mark_deleted(segment.base_offset)
                if snapshot is not None:
                    self._deleted_files.add(snapshot, remove_at_ms)

    def remove_deleted(self, now_ms: int) -> None:
        """Removes the `.deleted` files whose delay has passed."""
        self._deleted_files.remove_due(now_ms)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment], now_ms: int) -> None:
        """Replaces inactive segments by finished `.cleaned` segments."""
        replaced = {segment.base_offset for segment in old}
        kept = [segment for segment in self.segments if segment.base_offset not in replaced]
        base_offsets = [segment.base_offset for segment in new]
        # Old segments without remaining records start after the new segments' last batch, where recovery would not
        # recognize them as replaced. Delete them first: compacted records may be missing, but must not reappear.
        end_offset = max(segment.next_offset() for segment in new)
        emptied = [segment for segment in old if segment.base_offset >= max(end_offset, base_offsets[0] + 1)]
        self._mark_segments_deleted(emptied, now_ms, keep_snapshots_of=base_offsets)
        mark_swapped(self._disk, self.directory, new)
        self.segments = sorted([*kept, *new], key=reading.base_offset_of)
        self._assert_segments_in_order()
        self._mark_segments_deleted([one for one in old if one not in emptied], now_ms, keep_snapshots_of=base_offsets)
        finish_swap(self._disk, self.directory, new)

    def _assert_start_within_log(self) -> None:
        assert 0 <= self.log_start_offset <= self.log_end_offset, (
            f"{self.topic_partition}: log start {self.log_start_offset} is above the log end {self.log_end_offset}"
        )

    def _assert_segments_in_order(self) -> None:
        assert all(one.base_offset < following.base_offset for one, following in pairwise(self.segments)), (
            f"{self.topic_partition}: segments are not in order: {[one.base_offset for one in self.segments]}"
        )

    # ---- files

    def release_files(self) -> None:
        """Closes the descriptors of files without unsynced data; the next use reopens the files."""
        for segment in self.segments:
            segment.release()

    def abandon_files(self) -> None:
        """Closes all descriptors: the log is deleted, its disk failed, or the node aborts."""
        for segment in self.segments:
            segment.abandon()
        self.producers.snapshots.abandon()

    def find_idle_segments(self) -> list[Segment]:
        """The segments that were not used since the previous call and could be released."""
        return [segment for segment in self.segments if segment.is_idle()]

    def move_to(self, directory: str) -> None:
        """Renames the partition's directory, for example to mark it for deletion. The log stays readable."""
        self._is_renamed = True
        self._disk.rename(self.directory, directory)
        self._deleted_files.move_to(directory)
        self.directory = directory
        for segment in self.segments:
            segment.move_to(directory)
        self.producers.snapshots.move_to(directory)
        self.epochs.move_to(directory)

    def close(self) -> None:
        """Closes cleanly: flushes, trims the indexes and writes a producer snapshot at the log end."""
        if self._is_pristine:
            self._active.finish()
            self.release_files()
            return
        self.flush()
        if self._changed:
            self._active.finish()
            self._active.sync()
            self._active.sync_indexes()
            self.producers.take_snapshot(sync=True)
            self._disk.sync_dir(self.directory)
            self._changed = False
        assert not any(segment.is_unsynced for segment in self.segments), f"{self.directory}: not everything is synced"
        self.release_files()

    def end_ranges(self) -> None:
        """The files are gone, also those of deleted segments: see `BatchFile.end_ranges`."""
        self._deleted_files.forget_all()
        for segment in self.segments:
            segment.log.end_ranges()

    def delete(self) -> None:
        """Removes the partition's directory and its contents."""
        self.end_ranges()
        self.abandon_files()
        self._disk.remove_tree(self.directory)
