"""Loads and recovers a partition's directory: interrupted segment swaps, missing indexes, and after an unclean shutdown
the unflushed segments, which are scanned batch by batch and truncated at the first batch that is not valid.

It only reads and repairs files. The caller knows which offsets were flushed and whether the shutdown was clean.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from typing_extensions import Buffer

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import BatchHeader, CorruptBatch, check_crc
from odradek.storage.log import names
from odradek.storage.log.index_file import CorruptIndex
from odradek.storage.log.leader_epochs import LeaderEpochs
from odradek.storage.log.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.log.producer_snapshots import ProducerSnapshots
from odradek.storage.log.producer_state import ProducerState
from odradek.storage.log.segment import Segment
from odradek.storage.log.segment_swap import finish_swaps
from odradek.storage.log.transaction_index import AbortedTransaction

# Receives the bytes scanned so far and the bytes to scan.
Progress = Callable[[int, int], None]
_REPORT_EVERY_BYTES = 16 << 20
# Small batches take as long as large ones.
_REPORT_EVERY_BATCHES = 10_000


class LoadedLog(NamedTuple):
    segments: list[Segment]
    log_start_offset: int
    recovery_point: int
    log_end_offset: int
    producers: ProducerState
    epochs: LeaderEpochs
    # Nothing was repaired or created: the files are as a clean shutdown left them.
    untouched: bool
    # The directory had no log files.
    had_no_files: bool
    # Closed segments with rebuilt indexes, in ascending order: a later start must not trust them before they are
    # synced.
    reindexed: list[Segment]


class LogLoader:
    """Loads one directory; the steps share this state."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        topic_partition: TopicPartition,
        config: TopicConfig,
        recovery_point: int | None,
        was_compacted: bool,
        log_start_offset: int,
        had_clean_shutdown: bool,
        now_ms: int,
        producer_id_expiration_ms: int,
        progress: Progress | None = None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._recovery_point = recovery_point or 0
        # Whether offsets may be missing although no record was lost.
        self._may_have_gaps = config.compact or was_compacted or recovery_point is None
        self._log_start_offset = log_start_offset
        self._had_clean_shutdown = had_clean_shutdown
        self._now_ms = now_ms
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._progress = progress
        self._segments: list[Segment] = []
        # A dictionary as an ordered set: a segment may be repaired and then scanned too.
        self._reindexed: dict[Segment, None] = {}
        self._epochs = LeaderEpochs(disk, directory)
        self._untouched = had_clean_shutdown
        self._had_no_files = False

    def load(self, *, is_new: bool = False) -> LoadedLog:
        """`is_new`: the directory was just created and need not be listed."""
        if not is_new:
            finish_swaps(self._disk, self._directory, self._config, self._now_ms)
            self._epochs = LeaderEpochs.read(self._disk, self._directory)
            self._open_segments()
            if not self._had_clean_shutdown:
                self._recover_unflushed()
        log_end_offset = self._segments[-1].next_offset() if self._segments else -1
        if log_end_offset < self._log_start_offset:
            log_end_offset = self._create_empty()
        log_start_offset = max(self._log_start_offset, self._segments[0].base_offset)
        self._segments[-1].log.note_end(log_end_offset)
        self._epochs.truncate_from_end(log_end_offset)
        # Checkpointed with the first flush: without one, the next start computes the same result.
        self._epochs.truncate_from_start(self._log_start_offset)
        producers = self._load_producers(log_start_offset, log_end_offset, is_new)
        clean = self._had_clean_shutdown
        recovery_point = log_end_offset if clean else min(self._recovery_point, log_end_offset)
        return LoadedLog(
            self._segments,
            log_start_offset,
            recovery_point,
            log_end_offset,
            producers,
            self._epochs,
            self._untouched,
            self._had_no_files,
            [segment for segment in self._segments[:-1] if segment in self._reindexed],
        )

    # ---- finding the segments

    def _open_segments(self) -> None:
        listed = set(self._disk.list_dir(self._directory))
        # In ascending order: a transaction may have started in an earlier segment.
        for name in sorted(listed):
            parsed = names.parse_offset_file(name)
            if parsed is None or parsed.mark:
                continue
            if parsed.kind in names.INDEX_SUFFIXES:
                if names.offset_file(parsed.offset, names.LOG_SUFFIX) not in listed:
                    self._disk.remove(f"{self._directory}/{name}")
            elif parsed.kind == names.LOG_SUFFIX:
                self._open_segment(parsed.offset, listed)

    def _open_segment(self, base_offset: int, listed: set[str]) -> None:
        segment = Segment.open(self._disk, self._directory, base_offset, self._config, now_ms=self._now_ms)
        if names.offset_file(base_offset, names.TRANSACTION_INDEX_SUFFIX) not in listed:
            segment.transaction_index.has_no_file()
        flushed = self._had_clean_shutdown or base_offset < self._recovery_point
        # Unflushed segments are scanned later, which rebuilds their indexes.
        if flushed and not _indexes_are_sound(segment, listed):
            recover_segment(segment, self._producers_at(base_offset), self._epochs)
            self._reindexed[segment] = None
            self._untouched = False
        self._segments.append(segment)

    def _create_empty(self) -> int:
        """An empty log at its start offset, for a new partition or one whose files are missing."""
        self._untouched = False
        self._had_no_files = not self._segments
        for segment in self._segments:
            segment.remove_files()
        if self._segments:
            self._epochs.clear()
        first = Segment.create(self._disk, self._directory, self._log_start_offset, self._config, now_ms=self._now_ms)
        self._segments = [first]
        return self._log_start_offset

    # ---- scanning

    def _recover_unflushed(self) -> None:
        # A recovery point at the base offset of a segment may be older than that segment: it was then the end of the
        # previous segment, of which only the batches were synced.
        first = max(0, sum(1 for segment in self._segments if segment.base_offset < self._recovery_point) - 1)
        unflushed = self._segments[first:]
        if not unflushed:
            return
        bytes_to_scan = sum(segment.size for segment in unflushed)
        scanned = 0
        producers = self._producers_at(unflushed[0].base_offset)
        for slot, segment in enumerate(unflushed):
            size_before = segment.size
            report = None if self._progress is None else self._report_from(scanned, bytes_to_scan, self._progress)
            end_offset = recover_segment(segment, producers, self._epochs, report)
            self._reindexed[segment] = None
            scanned += size_before
            if report is not None:
                report(size_before)
            following = unflushed[slot + 1 :]
            if segment.size < size_before or (following and self._lost_records(end_offset, following[0].base_offset)):
                # No record after a gap was ever acknowledged.
                for later in following:
                    later.remove_files()
                del self._segments[first + slot + 1 :]
                break

    def _lost_records(self, end_offset: int, following_base_offset: int) -> bool:
        """Whether a power loss left a shorter file that ends with a whole batch. Apache Kafka does not look for it.

        The writer starts each segment at the end of the previous one. Gaps before the recovery point, and gaps of
        compacted logs, were there before the crash.
        """
        is_flushed = following_base_offset <= self._recovery_point
        return following_base_offset != end_offset and not is_flushed and not self._may_have_gaps

    @staticmethod
    def _report_from(scanned: int, bytes_to_scan: int, progress: Progress) -> Callable[[int], None]:
        return lambda position: progress(scanned + position, bytes_to_scan)

    # ---- producers

    def _new_producers(self, is_new: bool = False) -> ProducerState:
        offsets = []
        for name in () if is_new else self._disk.list_dir(self._directory):
            parsed = names.parse_offset_file(name)
            if parsed is not None and parsed.kind == names.SNAPSHOT_SUFFIX and not parsed.mark:
                offsets.append(parsed.offset)
        snapshots = ProducerSnapshots(self._disk, self._directory, offsets)
        return ProducerState(self._topic_partition, snapshots, self._producer_id_expiration_ms)

    def _producers_at(self, offset: int) -> ProducerState:
        """The producer state at the start of a segment to scan, from the segments already opened."""
        producers = self._new_producers()
        before = [segment for segment in self._segments if segment.base_offset < offset]
        rebuild_producers(producers, before, self._log_start_offset, offset, self._now_ms)
        return producers

    def _load_producers(self, log_start_offset: int, log_end_offset: int, is_new: bool) -> ProducerState:
        producers = self._new_producers(is_new)
        producers.snapshots.remove_strays(segment.base_offset for segment in self._segments)
        if self._had_clean_shutdown and producers.snapshots.latest_offset is None:
            # A clean shutdown writes a snapshot unless there are no producers.
            for offset in [*(segment.base_offset for segment in self._segments[-2:]), log_end_offset]:
                producers.end_offset = offset
                producers.take_snapshot(sync=False)
        else:
            rebuild_producers(producers, self._segments, log_start_offset, log_end_offset, self._now_ms)
        return producers


def _indexes_are_sound(segment: Segment, listed: set[str]) -> bool:
    if names.offset_file(segment.base_offset, names.OFFSET_INDEX_SUFFIX) not in listed:
        return False
    if names.offset_file(segment.base_offset, names.TIME_INDEX_SUFFIX) not in listed:
        return False
    if names.offset_file(segment.base_offset, names.TRANSACTION_INDEX_SUFFIX) in listed:
        try:
            segment.transaction_index.check()
        except CorruptIndex:
            return False
    return True


def recover_segment(
    segment: Segment,
    producers: ProducerState,
    epochs: LeaderEpochs,
    report: Callable[[int], None] | None = None,
) -> int:
    """Rebuilds the segment's indexes and truncates it after its last valid batch. Returns the end offset.

    `producers` is the state at the start of the segment and is advanced to its end, where a snapshot is written, so
    that no later recovery has to read this segment. `report` receives the position periodically.
    """
    segment.reset_indexes()
    valid_bytes = 0
    reported_bytes = batches_since_report = 0
    next_offset = segment.base_offset
    try:
        for position, header, data in segment.batches():
            check_crc(data, header)
            _check_offsets(segment, header, next_offset)
            if header.producer_id >= 0:
                replay_producer(segment, producers, header, data)
            segment.index_batch(header, position)
            latest_epoch = epochs.latest_epoch
            if header.leader_epoch > (-1 if latest_epoch is None else latest_epoch):
                epochs.assign_unwritten(header.leader_epoch, header.base_offset)
            valid_bytes = position + header.size
            batches_since_report += 1
            if report is not None and (
                batches_since_report >= _REPORT_EVERY_BATCHES or valid_bytes - reported_bytes >= _REPORT_EVERY_BYTES
            ):
                report(valid_bytes)
                reported_bytes, batches_since_report = valid_bytes, 0
            producers.end_offset = next_offset = header.next_offset
    except KafkaError:
        # Incomplete, corrupt or a leftover: the log ends before it.
        pass
    segment.log.truncate(valid_bytes)
    segment.finish()
    producers.take_snapshot(sync=False)
    return next_offset


def _check_offsets(segment: Segment, header: BatchHeader, next_offset: int) -> None:
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise CorruptBatch(f"{segment}: offset {header.base_offset} is not greater than offset {next_offset - 1}")
    if header.last_offset > segment.base_offset + RELATIVE_OFFSET_MAX:
        raise CorruptBatch(f"{segment}: offset {header.last_offset} is out of range for the segment")


def replay_producer(segment: Segment, producers: ProducerState, header: BatchHeader, data: Buffer) -> None:
    for ended, stable_offset in producers.replay(header, data):
        if ended.aborted:
            segment.transaction_index.append(
                AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable_offset)
            )


def rebuild_producers(
    producers: ProducerState, segments: Sequence[Segment], log_start_offset: int, end_offset: int, now_ms: int
) -> None:
    """Restores the state at `end_offset`: from the newest snapshot, then from the log after it."""
    was_empty = producers.is_empty and producers.end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset, now_ms)
    if end_offset > producers.end_offset and not was_empty:
        first = max(0, _count_not_above(segments, producers.end_offset) - 1)
        # With snapshots at the base offsets of the last two segments, a later truncation need not read them again.
        snapshot_at = {segment.base_offset for segment in segments[-2:]}
        for segment in segments[first:]:
            if segment.base_offset >= end_offset:
                break
            start_offset = max(segment.base_offset, producers.end_offset, log_start_offset)
            producers.end_offset = start_offset
            if segment.base_offset in snapshot_at:
                producers.take_snapshot(sync=False)
            _replay_range(producers, segment, start_offset, end_offset)
    producers.end_offset = end_offset
    producers.take_snapshot(sync=False)


def _replay_range(producers: ProducerState, segment: Segment, start_offset: int, end_offset: int) -> None:
    position = segment.find(start_offset)
    if position is None:
        return
    for _, header, data in segment.batches(position):
        if header.base_offset >= end_offset:
            return
        if header.producer_id >= 0:
            producers.replay(header, data)


def _count_not_above(segments: Sequence[Segment], offset: int) -> int:
    return sum(1 for segment in segments if segment.base_offset <= offset)
