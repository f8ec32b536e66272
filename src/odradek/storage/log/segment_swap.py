"""Replaces segments so that a crash at any moment leaves either the old ones or the new ones.

New segments are written as `.cleaned`. Complete ones are renamed to `.swap`: from then on they are valid, and the old
ones are deleted. Finally the suffix is removed. `finish_swaps` completes a swap that a crash interrupted.
"""

from collections.abc import Sequence

from odradek.base.ports import Disk
from odradek.config.topic_config import TopicConfig
from odradek.storage.log import names
from odradek.storage.log.segment import Segment


def mark_swapped(disk: Disk, directory: str, new: Sequence[Segment]) -> None:
    """Renames `.cleaned` to `.swap`. The caller then renames the replaced segments and calls `finish_swap`."""
    for segment in new:
        segment.sync()
        segment.sync_indexes()
    # The highest first: a remaining `.cleaned` below a `.swap` shows `finish_swaps` that this step is incomplete.
    for segment in sorted(new, key=lambda one: one.base_offset, reverse=True):
        segment.rename_mark(names.SWAP_SUFFIX)
    disk.sync_dir(directory)


def finish_swap(disk: Disk, directory: str, new: Sequence[Segment]) -> None:
    for segment in new:
        segment.rename_mark("")
    disk.sync_dir(directory)


def finish_swaps(disk: Disk, directory: str, config: TopicConfig, now_ms: int) -> None:
    """Removes incomplete replacements that a crash left, and completes the others."""
    swapped = _remove_unfinished(disk, directory)
    if not swapped:
        return
    low, high = names.OFFSET_MAX, -1
    for found in swapped:
        if found.kind == names.LOG_SUFFIX:
            size = disk.size(f"{directory}/{names.offset_file(found.offset, names.LOG_SUFFIX + names.SWAP_SUFFIX)}")
            segment = Segment(disk, directory, found.offset, config, size=size, now_ms=now_ms, mark=names.SWAP_SUFFIX)
            low, high = min(low, found.offset), max(high, segment.next_offset(), found.offset + 1)
            segment.release()
    for name in disk.list_dir(directory):
        parsed = names.parse_offset_file(name)
        if parsed is not None and parsed.mark != names.SWAP_SUFFIX and low <= parsed.offset < high:
            disk.remove(f"{directory}/{name}")
    for found in swapped:
        final = names.offset_file(found.offset, found.kind)
        disk.rename(f"{directory}/{final}{names.SWAP_SUFFIX}", f"{directory}/{final}", durable=False)
    disk.sync_dir(directory)


def _remove_unfinished(disk: Disk, directory: str) -> list[names.OffsetFile]:
    """Returns the valid `.swap` files."""
    swapped: list[names.OffsetFile] = []
    cleaned: list[names.OffsetFile] = []
    for name in disk.list_dir(directory):
        if name.endswith(names.DELETED_SUFFIX) and not name.endswith(names.METADATA_SNAPSHOT_DELETED_SUFFIX):
            disk.remove(f"{directory}/{name}")
            continue
        parsed = names.parse_offset_file(name)
        if parsed is None:
            continue
        if parsed.mark == names.CLEANED_SUFFIX:
            cleaned.append(parsed)
        elif parsed.mark == names.SWAP_SUFFIX:
            swapped.append(parsed)
    lowest_cleaned = min((found.offset for found in cleaned), default=names.OFFSET_MAX)
    unfinished = [found for found in swapped if found.offset >= lowest_cleaned]
    for found in (*unfinished, *cleaned):
        disk.remove(f"{directory}/{names.offset_file(found.offset, found.kind)}{found.mark}")
    return [found for found in swapped if found.offset < lowest_cleaned]
