"""One compaction pass over one log: builds the offset map from the dirty part, then rewrites the segments.

The pass knows files, not the log, and may run in another process than the broker's. It only reads inactive segments and
writes `.cleaned` segments beside them, with which the log's writer replaces the old ones (`compaction_replacement`). A
crash at any moment leaves the old segments or the new ones.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.base.ports import Disk
from odradek.records.batch import BatchHeader
from odradek.records.decode import records_payload
from odradek.records.walk import Walk
from odradek.storage.log import names, reading
from odradek.storage.log.compaction_filter import BatchFilter
from odradek.storage.log.compaction_map import new_offset_map
from odradek.storage.log.compaction_request import CompactionRequest
from odradek.storage.log.compaction_transactions import CleanedTransactions
from odradek.storage.log.index_file import IndexFile
from odradek.storage.log.segment import Segment
from odradek.storage.log.transaction_index import AbortedTransaction

# The number of bytes that one step reads, and that are written at once.
_STEP_BYTES = 1 << 20
_OFFSET_SPAN_MAX = (1 << 31) - 1


@dataclass(slots=True)
class CleaningStats:
    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    map_utilization: float = 0.0


class FinishedSegment(NamedTuple):
    """A `.cleaned` segment, and the base offsets of the segments that it replaces."""

    base_offset: int
    size: int
    replaced: Sequence[int]


class Step(NamedTuple):
    # Bytes read and written since the last step.
    io_bytes: int
    finished: FinishedSegment | None = None


class CompactionPass:
    def __init__(self, disk: Disk, request: CompactionRequest, walk: Walk) -> None:
        self._disk = disk
        self._request = request
        self._config = request.segment_config
        self._walk = walk
        self._map = new_offset_map(
            walk,
            memory_bytes=request.dedupe_buffer_bytes,
            load_factor=request.dedupe_buffer_load_factor,
            offset_span=request.first_uncleanable_offset - request.first_dirty_offset,
            hash_key=request.hash_key,
        )
        # Objects of its own, because the log's may be renamed or released meanwhile.
        self._segments = [
            Segment(disk, request.directory, one.base_offset, self._config, size=one.size, now_ms=request.now_ms)
            for one in request.segments
        ]
        self.stats = CleaningStats()

    @property
    def end_offset(self) -> int:
        """Below it the log is clean after the last step."""
        return self._map.latest_offset + 1

    def steps(self) -> Generator[Step, None, None]:
        """Every step blocks; steps may run in different threads, one after the other. Closing the iterator cleans
        up."""
        yield from self._build_map()
        self.stats.map_utilization = self._map.utilization
        transactions = CleanedTransactions()
        for group in self._groups():
            yield from self._clean_group(group, transactions)

    # ---- the map

    def _build_map(self) -> Iterator[Step]:
        start, end = self._request.first_dirty_offset, self._request.first_uncleanable_offset
        transactions = CleanedTransactions()
        transactions.expect(self._aborted_transactions(start, end))
        columns = self._walk.new_columns()
        dirty = self._segments_between(start, end)
        self._map.latest_offset = start - 1
        for slot, segment in enumerate(dirty):
            unreported = 0
            for _, header, data in segment.batches(segment.offset_index.lookup(start).position):
                if header.is_control:
                    transactions.is_empty_marker(header, data)
                elif not transactions.is_aborted(header) and header.last_offset >= start:
                    payload = records_payload(data, header)
                    for run in self._walk.columns(payload, header, columns):
                        if not self._map.put(payload, run, header.base_offset, start):
                            return
                if header.last_offset >= start:
                    self._map.latest_offset = header.last_offset
                unreported += header.size
                if unreported >= _STEP_BYTES:
                    self.stats.map_bytes_read += unreported
                    yield Step(unreported)
                    unreported = 0
            self.stats.map_bytes_read += unreported
            # An earlier pass removed the offsets between this segment's last batch and the next segment.
            self._map.latest_offset = (dirty[slot + 1].base_offset if slot + 1 < len(dirty) else end) - 1
            yield Step(unreported)

    def _segments_between(self, start: int, end: int) -> Sequence[Segment]:
        segments = self._segments
        first = max((slot for slot, one in enumerate(segments) if one.base_offset <= start), default=0)
        return [segment for segment in segments[first:] if segment.base_offset < end]

    def _aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those that overlap [start, end)."""
        later = [one for one in self._request.later_markers if one.first_offset < end]
        return reading.aborted_transactions(self._segments, start, end) + later if self._segments else later

    # ---- the segments

    def _groups(self) -> Iterator[list[Segment]]:
        """Joins neighbours that fit into one segment; otherwise repeated passes would leave ever smaller segments."""
        config = self._config
        segments = [one for one in self._segments if one.base_offset < self.end_offset]
        if not segments:
            return
        ends = [one.base_offset - 1 for one in segments[1:]] + [self._request.first_uncleanable_offset - 1]
        group: list[Segment] = []
        group_size = offset_index_size = time_index_size = 0
        for segment, last_offset in zip(segments, ends, strict=True):
            offset_index_bytes, time_index_bytes = _size(segment.offset_index), _size(segment.time_index)
            fits = (
                group_size + segment.size <= config.segment_bytes
                and offset_index_size + offset_index_bytes <= config.segment_index_bytes
                and time_index_size + time_index_bytes <= config.segment_index_bytes
            )
            if group and not (fits and (segment.size == 0 or last_offset - group[0].base_offset <= _OFFSET_SPAN_MAX)):
                yield group
                group, group_size, offset_index_size, time_index_size = [], 0, 0, 0
            group.append(segment)
            group_size += segment.size
            offset_index_size += offset_index_bytes
            time_index_size += time_index_bytes
        if group:
            yield group

    def _clean_group(self, group: list[Segment], transactions: CleanedTransactions) -> Iterator[Step]:
        cleaned = Segment.create(
            self._disk,
            self._request.directory,
            group[0].base_offset,
            self._config,
            now_ms=self._request.now_ms,
            mark=names.CLEANED_SUFFIX,
        )
        try:
            for slot, segment in enumerate(group):
                end = group[slot + 1].base_offset if slot + 1 < len(group) else segment.next_offset()
                transactions.expect(self._aborted_transactions(segment.base_offset, end))
                yield from self._clean_into(cleaned, segment, transactions)
            for aborted in transactions.retained:
                cleaned.transaction_index.append(aborted)
            transactions.retained.clear()
            cleaned.finish()
            # Before they are closed: a process that opens them later would miss an error of their write-back.
            cleaned.sync()
            cleaned.sync_indexes()
        except BaseException:
            cleaned.remove_files()
            raise
        cleaned.release()
        for segment in group:
            segment.release()
        yield Step(0, FinishedSegment(cleaned.base_offset, cleaned.size, [one.base_offset for one in group]))

    def _clean_into(self, cleaned: Segment, segment: Segment, transactions: CleanedTransactions) -> Iterator[Step]:
        batch_filter = BatchFilter(
            self._walk,
            self._map,
            transactions,
            self._request.producers,
            end_offset=self._request.first_uncleanable_offset,
            now_ms=self._request.now_ms,
            delete_retention_ms=self._request.delete_retention_ms,
        )
        stats = self.stats
        pieces: list[bytes | memoryview] = []
        headers: list[BatchHeader] = []
        read_bytes = pending_bytes = 0
        for _, header, data in segment.batches():
            read_bytes += header.size
            stats.records_read += header.record_count
            kept = batch_filter.keep(header, data)
            if kept is not None:
                pieces.append(kept.data)
                headers.append(kept.header)
                pending_bytes += kept.header.size
                stats.records_written += kept.records
            if read_bytes >= _STEP_BYTES:
                self._write(cleaned, pieces, headers)
                stats.bytes_read += read_bytes
                yield Step(read_bytes + pending_bytes)
                read_bytes = pending_bytes = 0
        self._write(cleaned, pieces, headers)
        stats.bytes_read += read_bytes
        yield Step(read_bytes + pending_bytes)

    def _write(self, cleaned: Segment, pieces: list[bytes | memoryview], headers: list[BatchHeader]) -> None:
        if headers:
            data = b"".join(pieces)
            cleaned.append(data, headers)
            self.stats.bytes_written += len(data)
            pieces.clear()
            headers.clear()


def _size(index: IndexFile) -> int:
    index.load()
    return index.entries * index.entry_size
