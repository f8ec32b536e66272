"""The broker's side of a compaction pass: what the pass needs of the log, and what the log takes from the pass."""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.base.ports import Disk
from odradek.storage.log import names
from odradek.storage.log.compaction import LogToClean
from odradek.storage.log.compaction_filter import LastWrite
from odradek.storage.log.compaction_pass import FinishedSegment
from odradek.storage.log.compaction_request import CompactionRequest, SegmentFile
from odradek.storage.log.segment import Segment


def new_request(
    chosen: LogToClean,
    producers: Mapping[int, LastWrite],
    *,
    now_ms: int,
    turn_bytes: int,
    hash_key: bytes,
    dedupe_buffer_bytes: int,
    dedupe_buffer_load_factor: float,
) -> CompactionRequest:
    """Blocks, because it reads transaction indexes."""
    log, config, end = chosen.candidate.log, chosen.candidate.config, chosen.first_uncleanable_offset
    return CompactionRequest(
        directory=log.directory,
        segments=[SegmentFile(one.base_offset, one.size) for one in _segments_to_clean(chosen)],
        first_dirty_offset=chosen.first_dirty_offset,
        first_uncleanable_offset=end,
        later_markers=log.aborted_transactions(end, end),
        producers=producers,
        now_ms=now_ms,
        turn_bytes=turn_bytes,
        hash_key=hash_key,
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        dedupe_buffer_load_factor=dedupe_buffer_load_factor,
        delete_retention_ms=config.delete_retention_ms,
        index_interval_bytes=config.index_interval_bytes,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
    )


def _segments_to_clean(chosen: LogToClean) -> list[Segment]:
    return [one for one in chosen.candidate.segments if one.base_offset < chosen.first_uncleanable_offset]


class SegmentReplacer:
    """Replaces segments of a log as a pass finishes their successors. Called by the log's writer."""

    def __init__(self, disk: Disk, chosen: LogToClean, request: CompactionRequest) -> None:
        self._disk: Final = disk
        self._log: Final = chosen.candidate.log
        self._config: Final = chosen.candidate.config
        self._request: Final = request
        # The old segments that are left, by base offset, with their sizes.
        self._old: Final = {
            segment.base_offset: (segment, file.size)
            for segment, file in zip(_segments_to_clean(chosen), request.segments, strict=True)
        }

    def log_has_changed(self) -> bool:
        """Whether the log was deleted or truncated, or retention has removed segments, while the pass was running."""
        return not self._has(self._old)

    def replace(self, finished: FinishedSegment) -> bool:
        """If the log no longer has the old segments, removes the new one and returns False."""
        request = self._request
        new = Segment(
            self._disk,
            request.directory,
            finished.base_offset,
            self._config,
            size=finished.size,
            now_ms=request.now_ms,
            mark=names.CLEANED_SUFFIX,
        )
        if not self._has(finished.replaced):
            new.remove_files()
            return False
        old = [self._old.pop(base_offset)[0] for base_offset in finished.replaced]
        self._log.replace_segments([new], old, request.now_ms)
        return True

    def _has(self, base_offsets: Iterable[int]) -> bool:
        log = self._log
        present = set(map(id, log.segments))
        return not log.is_deleted and all(
            id(segment) in present and segment is not log.active_segment and segment.size == size
            for segment, size in map(self._old.__getitem__, base_offsets)
        )
