"""Copies a partition's log batch by batch to another directory, while the original is still written.

Offsets, epochs, producers and transactions stay the same. `advance` may run in any thread concurrently with the
original's writer and readers; during `finish` the original must not change.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import check_crc, parse_batches
from odradek.storage.log.leader_epochs import UNDEFINED_EPOCH, EpochEntry
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.reading import LogRead

CHUNK_BYTES = 1 << 20
# One sync of a whole log would delay all other syncs on the same disk.
SYNC_INTERVAL_BYTES = 16 << 20


class SourceUnreadable(Exception):
    """The original's disk failed; every other OSError comes from the copy's disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Progress(NamedTuple):
    copied_bytes: int
    # Only records that were appended meanwhile are missing.
    caught_up: bool


class LogCopy:
    def __init__(self, source: PartitionLog, copy: PartitionLog) -> None:
        self.source = source
        self.copy = copy
        self._unsynced_bytes = 0
        self._agreed_cut_count: int | None = None

    def agree(self, now_ms: int) -> None:
        """Truncates the copy to what the original has: the original may have lost its end in a crash, or its leader's
        log diverged, and other records were appended since."""
        # Read first: after a concurrent truncation the logs have to be compared again.
        self._agreed_cut_count = self.source.truncation_count
        if self.copy.topic_id is None and self.source.topic_id is not None:
            # A power loss left only the directory.
            self.copy.adopt(self.source.topic_id)
        self.copy.truncate_to(max(0, self._shared_end()), now_ms)

    def _shared_end(self) -> int:
        """The end of the epochs that both logs share: in one epoch, one offset has one record."""
        source, copy = self.source, self.copy
        start = max(source.log_start_offset, copy.log_start_offset)
        end = min(source.log_end_offset, copy.log_end_offset)
        epochs = zip_longest(_since(start, source.epochs.entries), _since(start, copy.epochs.entries))
        for one, other in epochs:
            if one != other:
                return min(end, *(entry.start_offset for entry in (one, other) if entry is not None))
        return end

    def advance(self, now_ms: int) -> Progress:
        """Copies up to one chunk, at least one batch.

        Raises CorruptBatch if the original's disk returned a corrupt batch: it is not copied.
        """
        source, copy = self.source, self.copy
        if self._agreed_cut_count != source.truncation_count:
            self.agree(now_ms)
        if copy.log_end_offset < source.log_start_offset:
            # The original starts after the copy's end: retention was faster, or the copy is new.
            copy.truncate_fully_to(source.log_start_offset, now_ms)
        found = self._read(copy.log_end_offset, min(CHUNK_BYTES, copy.config.segment_bytes))
        if found is None:
            # The log start advanced between check and read, or the log is being truncated: the next step starts there.
            return Progress(0, caught_up=False)
        if found.data:
            self._append(found.data, now_ms)
        return Progress(len(found.data), self._bytes_behind(found) <= CHUNK_BYTES)

    def _append(self, data: bytes, now_ms: int) -> None:
        source, copy = self.source, self.copy
        batches = parse_batches(data)
        for batch in batches:
            check_crc(data, batch)
        if batches[0].base_offset < copy.log_end_offset:
            # The original's log start is inside a batch, and the copy starts with the whole batch.
            copy.truncate_to(batches[0].base_offset, now_ms)
        copy.append_as_follower(data, batches, now_ms=now_ms)
        copy.advance_log_start(min(source.log_start_offset, copy.log_end_offset))
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= SYNC_INTERVAL_BYTES:
            copy.flush()
            self._unsynced_bytes = 0

    def _bytes_behind(self, found: LogRead) -> int:
        """The bytes of the original after the data just read."""
        segments = self.source.segments
        later = sum(one.size for one in segments if one.base_offset > found.segment_base_offset)
        current = sum(one.size for one in segments if one.base_offset == found.segment_base_offset)
        return later + max(0, current - found.position - len(found.data))

    def _read(self, offset: int, max_bytes: int) -> LogRead | None:
        try:
            return self.source.read(offset, max_bytes, end_offset_exclusive=self.source.log_end_offset)
        except OSError as error:
            raise SourceUnreadable(error) from error
        except KafkaError as error:
            if error.code not in (ErrorCode.offset_out_of_range, ErrorCode.offset_not_available):
                raise
            return None

    def finish(self, now_ms: int) -> None:
        """Copies the rest and the state outside the batches, and syncs everything."""
        source, copy = self.source, self.copy
        while self.advance(now_ms).copied_bytes:
            pass
        if copy.log_end_offset < source.log_end_offset:
            # Compaction removed the last records: only the name of an empty segment shows the log end.
            copy.roll(now_ms, at_least=source.log_end_offset)
            copy.log_end_offset = source.log_end_offset
        copy.advance_log_start(source.log_start_offset)
        known = copy.epochs.latest_epoch
        for epoch, start_offset in source.epochs.entries:
            if epoch > (UNDEFINED_EPOCH if known is None else known):
                copy.epochs.assign(epoch, start_offset)
        copy.update_config(source.config)
        copy.flush()


def _since(start_offset: int, entries: Sequence[EpochEntry]) -> list[EpochEntry]:
    """The epochs from the offset on; the first one starts at the offset."""
    later = [entry for entry in entries if entry.start_offset > start_offset]
    if len(later) < len(entries):
        later.insert(0, EpochEntry(entries[-len(later) - 1].epoch, start_offset))
    return later
