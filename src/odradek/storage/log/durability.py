"""Tracks how much of a log is synced, and syncs the rest.

A flush runs in its own thread, concurrently with appends, rolls and even truncations, and reports only what it has
synced.
"""

import contextlib
from collections.abc import Sequence

from odradek.base.ports import Disk
from odradek.storage.log.reading import floor_slot
from odradek.storage.log.segment import Segment


class Durability:
    __slots__ = ("_disk", "_index_sync_due", "_truncations", "flushed_to")

    def __init__(self, disk: Disk, flushed_to: int) -> None:
        self._disk = disk
        # Every batch below this offset is synced.
        self.flushed_to = flushed_to
        # Closed segments with unsynced indexes: those of an active segment change too often to be synced with it.
        self._index_sync_due: list[Segment] = []
        self._truncations = 0

    def recovery_point(self, log_end_offset: int) -> int:
        """Recovery after a crash has to scan from the segment that contains this offset."""
        due = self._index_sync_due
        flushed_to = min(self.flushed_to, log_end_offset)
        return min(flushed_to, due[0].base_offset) if due else flushed_to

    def flush(self, segments: Sequence[Segment], directory: str, target: int) -> None:
        """Syncs everything below `target` and the indexes of closed segments."""
        truncations = self._truncations
        if target > self.flushed_to:
            self._sync_batches(segments, directory, target)
        for segment in list(self._index_sync_due):
            segment.sync_indexes()
            # The writer may have replaced the list meanwhile: then the indexes are synced once more.
            with contextlib.suppress(ValueError):
                self._index_sync_due.remove(segment)
        flushed_to = max(self.flushed_to, target)
        # Batches that were truncated and rewritten meanwhile are not synced. Check and assignment must stay together.
        if truncations == self._truncations:
            self.flushed_to = flushed_to

    def _sync_batches(self, segments: Sequence[Segment], directory: str, target: int) -> None:
        flushed_to = self.flushed_to
        new_files = False
        for segment in segments[floor_slot(segments, flushed_to) :]:
            if segment.base_offset >= target:
                break
            segment.sync()
            new_files = new_files or segment.base_offset >= flushed_to
        if new_files:
            self._disk.sync_dir(directory)

    def on_segment_closed(self, segment: Segment) -> None:
        """The segment gets no more batches."""
        self._index_sync_due.append(segment)

    def on_segments_removed(self, segments: Sequence[Segment]) -> None:
        """The segments are no longer part of the log."""
        self._index_sync_due = [segment for segment in self._index_sync_due if segment not in segments]

    def on_truncation(self, offset: int, active: Segment) -> None:
        """Nothing at or above the offset is synced any more; `active` is the active segment again."""
        self._truncations += 1
        self.flushed_to = min(self.flushed_to, offset)
        self.on_segments_removed([active])
