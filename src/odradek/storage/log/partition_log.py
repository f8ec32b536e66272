"""One partition's log: segments, producers and leader epochs joined. Kafka's files, through the Disk port.

One writer at a time; `read`, `read_cached` and `flush` may run beside it in other threads. It never reads the clock and
starts no thread: what waits for a disk, waits in the caller's. Batches come checked (CRC, size, timestamps); nothing
here looks at records, save in transaction markers. An OSError goes to the caller, and the log is then as before.
"""

from collections.abc import Callable, Iterable, Sequence
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
from odradek.storage.log.index_file import WouldWait
from odradek.storage.log.leader_epochs import LeaderEpochs
from odradek.storage.log.partition_metadata import agree_on_topic_id, sync_identity, write_topic_id
from odradek.storage.log.producer_batch_lookup import precedes_known_batches, restore_batches
from odradek.storage.log.producer_entry import SequencedBatch
from odradek.storage.log.producer_state import Origin, ProducerState, StagedProducers
from odradek.storage.log.reading import LogRead
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
    # The batch was there already; the offsets are those it got then, `timestamp` is the greatest it had.
    duplicate: bool = False
    timestamp: int = -1
    # A segment was closed: its `flush` is due, up to `rolled_at`.
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
        """Not for callers: see `open`."""
        self._disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        # Replaced as a whole whenever it changes, so that readers in other threads see one or the other.
        self.segments: Sequence[Segment] = loaded.segments
        self._active = loaded.segments[-1]
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self._assert_segments_in_order()
        self._assert_start_within_log()
        self._durability = Durability(disk, loaded.recovery_point)
        for segment in loaded.reindexed:
            self._durability.closed(segment)
        # Whether a clean stop has anything to write.
        self._changed = not loaded.untouched
        is_empty_as_left = loaded.untouched and loaded.log_end_offset == 0
        # Never had a record, and so has nothing to lose: its files need not be durable.
        self._is_pristine = loaded.had_no_files or is_empty_as_left
        self.truncation_count = 0
        """Changes when a cut of its end begins, and when it is done: what was read of it before may not be in it any
        more."""
        # Whether the directory, its name and its topic id are on the disk for good.
        self._is_rooted = loaded.untouched and not is_empty_as_left
        self.producers: ProducerState = loaded.producers
        self.epochs: LeaderEpochs = loaded.epochs
        self._deleted_files = DeletedFiles(disk)
        self._moved = False
        self.is_deleted = False
        """From now on its files may go at any moment, whoever still has something to do with them."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        had_clean_shutdown: bool = False,
        now_ms: int,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        progress: Progress | None = None,
    ) -> "PartitionLog":
        """Opens or creates the log in `directory`, recovering it if the last stop was not clean."""
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
            log_start_offset=log_start_offset,
            had_clean_shutdown=had_clean_shutdown,
            now_ms=now_ms,
            producer_id_expiration_ms=producer_id_expiration_ms,
            progress=progress,
        ).load(is_new=is_new)
        log = cls(disk, directory, topic_partition, topic_id, config, loaded)
        if config.flush_messages <= 1 and log.recovery_point < log.log_end_offset:
            # What the last run had no time to sync will be served: then it must not be lost either.
            log.flush()
        log.release_files()
        return log

    @property
    def recovery_point(self) -> int:
        """A start after a crash has to look at the segment that holds this offset, and at those behind it."""
        return self._durability.recovery_point(self.log_end_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def active_segment(self) -> Segment:
        return self._active

    def adopt(self, topic_id: UUID) -> None:
        """Belongs to this topic from now on, of a log that had no topic id. May wait for the disk."""
        write_topic_id(self._disk, self.directory, topic_id)
        self.topic_id = topic_id
        self._is_rooted = False
        if self.log_end_offset > 0:
            # What is there already may have been promised: from now on its directory counts by its id.
            self.flush()

    def update_config(self, config: TopicConfig) -> None:
        """Sizes of indexes and their interval count from the next segment on, all else at once."""
        self.config = config

    # ---- appending

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
    ) -> Appended:
        """Gives the batches their offsets and the epoch, in `data` and in the headers, and appends them.

        If it `verifies`, the first batch of a transaction has to have been asked for: `verification` says by whom.
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
        return self._append(data, batches, first_offset, offset, staged, now_ms)

    def _check_verified(self, batch: BatchHeader, verification: Verification | None, origin: Origin) -> None:
        producers = self.producers
        if not producers.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):
            entry = producers.producers.get(batch.producer_id)
            # Of an epoch that has passed, that is what is said.
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
        """Appends a leader's batches with the offsets and epochs they have."""
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
    ) -> Appended:
        assert self.log_end_offset <= first_offset < end_offset, (
            f"{self.topic_partition}: offsets {first_offset} to {end_offset} appended at {self.log_end_offset}"
        )
        size = len(data)
        config = self.config
        segment = self._active
        rolled_at = -1
        max_timestamp = batches[0].max_timestamp if len(batches) == 1 else max(one.max_timestamp for one in batches)
        if not segment.has_room(size, end_offset - 1, max_timestamp, now_ms, config):
            if size > config.segment_bytes:
                raise KafkaError(
                    ErrorCode.record_list_too_large,
                    f"Message batch size is {size} bytes in append to partition {self.topic_partition}, which exceeds "
                    f"the maximum configured segment size of {config.segment_bytes}.",
                )
            segment = self.roll(now_ms, first_offset)
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
        """Before the log, so that the log never holds an abort that readers do not hear of."""
        aborted: list[AbortedTransaction] = []
        for ended in staged.completed:
            if ended.aborted:
                stable_offset = self.producers.stable_offset_after(staged, ended)
                entry = AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable_offset)
                segment.transaction_index.write_ahead(len(aborted), entry)
                aborted.append(entry)
        return aborted

    def roll(self, now_ms: int, at_least: int = 0) -> Segment:
        """Closes the active segment and begins another at the log's end. An empty active segment stays as it is."""
        base_offset = max(self.log_end_offset, at_least)
        active = self._active
        if base_offset == active.base_offset:
            return active
        # Producers as of the new segment's begin: recovery of that segment starts from here.
        self.producers.end_offset = base_offset
        self.producers.take_snapshot(sync=False)
        active.finish()
        segment = Segment.create(self._disk, self.directory, base_offset, self.config, now_ms=now_ms)
        self._durability.closed(active)
        assert base_offset > active.base_offset, f"{self.topic_partition}: segment {base_offset} is out of order"
        self.segments = [*self.segments, segment]
        self._active = segment
        self._changed = True
        return segment

    # ---- reading

    def read(self, offset: int, max_bytes: int, *, end_offset_exclusive: int, min_one_message: bool = True) -> LogRead:
        """Whole batches from the one that holds `offset`, none at or above the end. May wait for the disk."""
        return self._look(
            lambda: self._read(offset, max_bytes, end_offset_exclusive, min_one_message, cached=False),
        )

    def _look(self, look: Callable[[], T]) -> T:
        """What a reader sees under whom files may be renamed."""
        while True:
            segments, truncation_count = self.segments, self.truncation_count
            try:
                found = look()
            except FileNotFoundError:
                if self._moved:
                    # The directory was renamed under this reader: the partition is deleted, or lives elsewhere.
                    raise KafkaError(ErrorCode.not_leader_or_follower) from None
                if self.segments is segments and self.truncation_count == truncation_count:
                    raise
                # Retention or compaction took the segment; the next look finds what stands in its place.
            except CorruptBatch:
                if self.truncation_count == truncation_count:
                    raise
            else:
                # Else something may have been written meanwhile in the place of what was looked for.
                if self.truncation_count == truncation_count:
                    return found

    def read_cached(
        self, offset: int, max_bytes: int, *, end_offset_exclusive: int, min_one_message: bool = True
    ) -> LogRead | None:
        """As `read`, but None when that would have to wait for the disk."""
        truncation_count = self.truncation_count
        try:
            found = self._read(offset, max_bytes, end_offset_exclusive, min_one_message, cached=True)
        except WouldWait:
            return None
        except (FileNotFoundError, CorruptBatch):
            # `read` finds out why.
            return None
        return found if self.truncation_count == truncation_count else None

    def _read(self, offset: int, max_bytes: int, end_offset: int, min_one_message: bool, cached: bool) -> LogRead:
        log_end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > log_end_offset:
            self._raise_out_of_range(offset)
        if end_offset > log_end_offset:
            end_offset = log_end_offset
        return reading.read_batches(
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
        """The first record whose timestamp is not below the one asked for."""
        return self._look(lambda: reading.find_timestamp(self.segments, timestamp, self.log_start_offset))

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the greatest timestamp of the log."""
        return self._look(lambda: reading.find_max_timestamp(self.segments))

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """Those that reach into [from, to), by the order of their markers."""
        return self._look(lambda: reading.aborted_transactions(self.segments, from_offset, to_offset))

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins, markers above the high watermark not counted."""
        return self.producers.first_undecided_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided, and the decision replicated."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    # ---- durability

    def flush(self, up_to_offset: int | None = None) -> None:
        """Makes everything below the offset (the log's end, if none is given) survive a power loss."""
        target = self.log_end_offset if up_to_offset is None else min(up_to_offset, self.log_end_offset)
        if not self._is_rooted:
            # Batches in a directory that is lost, or that nobody can tell the topic of, are lost as well.
            sync_identity(self._disk, self.directory)
            self._is_rooted = True
        # Epochs first: recovery does not look for them in batches that are flushed.
        self.epochs.write_if_changed()
        self._flush_segments(target)
        self.producers.snapshots.sync()

    def _flush_segments(self, target: int) -> None:
        while True:
            segments, truncation_count = self.segments, self.truncation_count
            try:
                self._durability.flush(segments, self.directory, target)
            except FileNotFoundError:
                if self.segments is segments and self.truncation_count == truncation_count:
                    raise
                # Retention took a segment, or a cut did: what is left of them is to be synced.
            else:
                return

    # ---- shortening

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Cuts the log so that it ends before `offset`, for good. False if it did already.

        What is appended next takes the place of what was cut: after a loss of power none of that may lie behind it.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        segments = self.segments
        if segments[0].base_offset > offset:
            self.truncate_fully_to(offset, now_ms)
            return True
        kept = [segment for segment in segments if segment.base_offset <= offset]
        self.truncation_count += 1
        # Before files change their names: whoever then misses one finds that it is no longer asked for.
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
        self._durability.truncated(offset, self._active)
        self.log_start_offset = min(self.log_start_offset, offset)
        self._assert_start_within_log()
        self.epochs.truncate_from_end(offset)
        # Meanwhile readers see those that were: of too many open transactions, never of too few.
        producers = self.producers.copy()
        rebuild_producers(producers, kept, self.log_start_offset, offset, now_ms)
        self.producers = producers
        self.truncation_count += 1
        return True

    def truncate_fully_to(self, offset: int, now_ms: int, *, log_start_offset: int | None = None) -> None:
        """Drops everything and begins anew at `offset`."""
        self.truncation_count += 1
        self._mark_segments_deleted(self.segments, now_ms)
        segment = Segment.create(self._disk, self.directory, offset, self.config, now_ms=now_ms)
        self.segments = [segment]
        self._active = segment
        self._is_pristine = False
        self.log_end_offset = offset
        self._durability.truncated(offset, self._active)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self.epochs.clear()
        self.producers.restart_at(offset)
        self.producers.take_snapshot(sync=False)
        self.truncation_count += 1

    def advance_log_start(self, offset: int) -> bool:
        """Hides what lies below; whole segments go with the next `delete_old_segments`. False if it changes nothing."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._assert_start_within_log()
        self.epochs.truncate_from_start(offset)
        self.producers.advance_log_start(offset)
        return True

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Lets go of the segments that retention or the log's start have passed; returns how many."""
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
        # The start moves first: nobody looks for what is about to go.
        self.advance_log_start(kept[0].base_offset)
        self.segments = kept
        self._mark_segments_deleted(deleted, now_ms)
        return count

    def _mark_segments_deleted(
        self, segments: Sequence[Segment], now_ms: int, keep_snapshots_of: Iterable[int] = ()
    ) -> None:
        """Renames the files to `.deleted`; they go once nobody can be reading them any more."""
        remove_at_ms = now_ms + self.config.file_delete_delay_ms
        kept = set(keep_snapshots_of)
        self._durability.gone(segments)
        for segment in segments:
            segment.rename_mark(names.DELETED_SUFFIX)
            for suffix in names.SEGMENT_SUFFIXES:
                self._deleted_files.add(segment.path(suffix), remove_at_ms)
            if segment.base_offset not in kept:
                snapshot = self.producers.snapshots.mark_deleted(segment.base_offset)
                if snapshot is not None:
                    self._deleted_files.add(snapshot, remove_at_ms)

    def remove_deleted(self, now_ms: int) -> None:
        """Removes the `.deleted` files whose time has come."""
        self._deleted_files.remove_due(now_ms)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment], now_ms: int) -> None:
        """Puts finished `.cleaned` segments in the place of some that are not active."""
        gone = {segment.base_offset for segment in old}
        kept = [segment for segment in self.segments if segment.base_offset not in gone]
        begins = [segment.base_offset for segment in new]
        # Old segments of which nothing is left lie behind the new ones' last batch, where a restart would not know that
        # they were replaced. They go first: what has been cleaned away may be missing, but must not come back.
        end_offset = max(segment.next_offset() for segment in new)
        emptied = [segment for segment in old if segment.base_offset >= max(end_offset, begins[0] + 1)]
        self._mark_segments_deleted(emptied, now_ms, keep_snapshots_of=begins)
        mark_swapped(self._disk, self.directory, new)
        self.segments = sorted([*kept, *new], key=reading.base_offset_of)
        self._assert_segments_in_order()
        self._mark_segments_deleted([one for one in old if one not in emptied], now_ms, keep_snapshots_of=begins)
        finish_swap(self._disk, self.directory, new)

    def _assert_start_within_log(self) -> None:
        assert 0 <= self.log_start_offset <= self.log_end_offset, (
            f"{self.topic_partition}: log start {self.log_start_offset} is above the log end {self.log_end_offset}"
        )

    def _assert_segments_in_order(self) -> None:
        assert all(one.base_offset < following.base_offset for one, following in pairwise(self.segments)), (
            f"{self.topic_partition}: segments are not in order: {[one.base_offset for one in self.segments]}"
        )

    # ---- the end

    def release_files(self) -> None:
        """Gives back all descriptors; the next use opens the files again."""
        for segment in self.segments:
            segment.release()

    def release_idle_files(self) -> None:
        """Gives back the descriptors of files that nobody used since this was called last."""
        for segment in self.segments:
            segment.release_if_idle()

    def move_to(self, directory: str) -> None:
        """Renames the partition's directory, as to mark it for deletion. The log can still be read."""
        self._moved = True
        self._disk.rename(self.directory, directory)
        self._deleted_files.move_to(directory)
        self.directory = directory
        for segment in self.segments:
            segment.move_to(directory)
        self.producers.snapshots.move_to(directory)
        self.epochs.move_to(directory)

    def close(self) -> None:
        """Ends cleanly: everything flushed, indexes at their true size, a snapshot of the producers at the end."""
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
        self.release_files()

    def delete(self) -> None:
        """Removes the partition's directory with everything in it."""
        self.release_files()
        self._disk.remove_tree(self.directory)
