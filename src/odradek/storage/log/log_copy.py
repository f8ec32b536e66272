"""A partition's log copied batch by batch into another directory, while the original is still written.

Offsets, epochs, producers and transactions come out the same. `advance` may run in any thread beside the original's
writer and readers; `finish` needs the original to stand still.
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
# One sync of a whole log would hold up everybody else's on the same disk.
SYNC_INTERVAL_BYTES = 16 << 20


class SourceUnreadable(Exception):
    """The original's disk failed; every other OSError comes from the copy's."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Progress(NamedTuple):
    copied_bytes: int
    # Only what was written meanwhile is missing.
    caught_up: bool


class LogCopy:
    def __init__(self, source: PartitionLog, copy: PartitionLog) -> None:
        self.source = source
        self.copy = copy
        self._unsynced_bytes = 0
        self._agreed_cut_count: int | None = None

    def agree(self, now_ms: int) -> None:
        """Cuts off what the original does not have: it may have lost its end in a crash, or cut it off because its
        leader's log is another, and written something else since."""
        # Before anything is looked at: what is cut meanwhile has to be looked at once more.
        self._agreed_cut_count = self.source.truncation_count
        if self.copy.topic_id is None and self.source.topic_id is not None:
            # Begun before a power loss that left only the directory.
            self.copy.adopt(self.source.topic_id)
        self.copy.truncate_to(max(0, self._shared_end()), now_ms)

    def _shared_end(self) -> int:
        """Up to where both have the same epochs: an epoch has one record for one offset, whoever has it."""
        source, copy = self.source, self.copy
        start = max(source.log_start_offset, copy.log_start_offset)
        end = min(source.log_end_offset, copy.log_end_offset)
        epochs = zip_longest(_since(start, source.epochs.entries), _since(start, copy.epochs.entries))
        for one, other in epochs:
            if one != other:
                return min(end, *(entry.start_offset for entry in (one, other) if entry is not None))
        return end

    def advance(self, now_ms: int) -> Progress:
        """Copies up to a chunk, at least one batch.

        Raises CorruptBatch for a batch that its disk gave back altered: better no copy than that one.
        """
        source, copy = self.source, self.copy
        if self._agreed_cut_count != source.truncation_count:
            self.agree(now_ms)
        if copy.log_end_offset < source.log_start_offset:
            # Nothing of it is left in the original: retention was faster, or the copy is new.
            copy.truncate_fully_to(source.log_start_offset, now_ms)
        found = self._read(copy.log_end_offset, min(CHUNK_BYTES, copy.config.segment_bytes))
        if found is None:
            # The start moved between the look at it and the read: the next step begins there.
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
            # The original's start lies within a batch, and the copy begins with the whole of it.
            copy.truncate_to(batches[0].base_offset, now_ms)
        copy.append_as_follower(data, batches, now_ms=now_ms)
        copy.advance_log_start(min(source.log_start_offset, copy.log_end_offset))
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= SYNC_INTERVAL_BYTES:
            copy.flush()
            self._unsynced_bytes = 0

    def _bytes_behind(self, found: LogRead) -> int:
        """What lies in the original behind the data just read."""
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
            if error.code is not ErrorCode.offset_out_of_range:
                raise
            return None

    def finish(self, now_ms: int) -> None:
        """Copies what is left, and what is not in the batches. Everything is on the disk once it returns."""
        source, copy = self.source, self.copy
        while self.advance(now_ms).copied_bytes:
            pass
        if copy.log_end_offset < source.log_end_offset:
            # Compaction took the last records: the end is known by the name of an empty segment only.
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
    """The epochs from there on, the first of them as if it began there."""
    later = [entry for entry in entries if entry.start_offset > start_offset]
    if len(later) < len(entries):
        later.insert(0, EpochEntry(entries[-len(later) - 1].epoch, start_offset))
    return later
