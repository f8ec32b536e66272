import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all

HOUR_MS = 3_600_000


def box_of_segments(directory: Path, count: int = 6, **options: Any) -> LogBox:
    """One batch of one record in each segment, an hour apart."""
    data = batch(1, size=100)
    box = LogBox(directory, config=config(segment_bytes=len(data), **options))
    for n in range(count):
        box.append(batch(1, size=100, timestamp=NOW_MS + n * HOUR_MS))
    assert len(box.log.segments) == count
    return box


def bases(box: LogBox) -> list[int]:
    return [segment.base_offset for segment in box.log.segments]


def test_retention_by_time(tmp_path: Path) -> None:
    box = box_of_segments(tmp_path, retention_ms=2 * HOUR_MS)
    assert box.log.delete_old_segments(NOW_MS + 2 * HOUR_MS, 6) == 0
    assert box.log.delete_old_segments(NOW_MS + 4 * HOUR_MS, 6) == 2
    assert bases(box) == [2, 3, 4, 5]
    assert box.log.log_start_offset == 2
    assert [one.base_offset for one in read_all(box.log)] == [2, 3, 4, 5]


def test_retention_of_all_segments_leaves_an_empty_one(tmp_path: Path) -> None:
    box = box_of_segments(tmp_path, retention_ms=2 * HOUR_MS)
    assert box.log.delete_old_segments(NOW_MS + 100 * HOUR_MS, 6) == 6
    assert bases(box) == [6]
    assert (box.log.log_start_offset, box.log.log_end_offset) == (6, 6)
    assert box.log.delete_old_segments(NOW_MS + 200 * HOUR_MS, 6) == 0
    assert box.append(batch())[:2] == (6, 6)
    assert box.reopen_cleanly().log_start_offset == 6


def test_retention_never_deletes_above_the_high_watermark(tmp_path: Path) -> None:
    box = box_of_segments(tmp_path, retention_ms=1)
    assert box.log.delete_old_segments(NOW_MS + 100 * HOUR_MS, 3) == 3
    assert box.log.log_start_offset == 3
    assert box.log.delete_old_segments(NOW_MS + 100 * HOUR_MS, 3) == 0


def test_retention_by_size(tmp_path: Path) -> None:
    size = len(batch(1, size=100))
    box = box_of_segments(tmp_path, retention_bytes=3 * size, retention_ms=-1)
    assert box.log.delete_old_segments(NOW_MS, 6) == 3
    assert bases(box) == [3, 4, 5]
    box.log.update_config(config(segment_bytes=size, retention_bytes=3 * size - 1, retention_ms=-1))
    # A segment is deleted only if the rest still has retention.bytes.
    assert box.log.delete_old_segments(NOW_MS, 6) == 0
    box.log.update_config(config(segment_bytes=size, retention_bytes=0, retention_ms=-1))
    assert box.log.delete_old_segments(NOW_MS, 6) == 3
    assert bases(box) == [6]


def test_compacted_topics_ignore_retention(tmp_path: Path) -> None:
    policy: dict[str, Any] = {"compact": True, "delete": False, "cleanup_policy": frozenset({"compact"})}
    box = box_of_segments(tmp_path, retention_ms=1, **policy)
    assert box.log.delete_old_segments(NOW_MS + 100 * HOUR_MS, 6) == 0
    # Below the log start segments are deleted under any policy.
    box.log.advance_log_start(3)
    assert box.log.delete_old_segments(NOW_MS + 100 * HOUR_MS, 6) == 3
    assert bases(box) == [3, 4, 5]


def test_advanced_log_start_deletes_segments(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=500))
    for n in range(20):
        box.append(batch(2, size=30), epoch=n // 5)
    assert box.log.advance_log_start(17)
    assert not box.log.advance_log_start(17)
    assert not box.log.advance_log_start(3)
    assert box.log.log_start_offset == 17
    assert [tuple(one) for one in box.log.epochs.entries] == [(1, 17), (2, 20), (3, 30)]
    before = bases(box)
    box.log.delete_old_segments(NOW_MS, 40)
    assert bases(box) == before[max(n for n, base in enumerate(before) if base <= 17) :]
    log = box.reopen_cleanly()
    assert log.log_start_offset == 17
    assert [tuple(one) for one in log.epochs.entries] == [(1, 17), (2, 20), (3, 30)]


def test_deleted_files_are_removed_after_the_delay(tmp_path: Path) -> None:
    box = box_of_segments(tmp_path, retention_ms=1, file_delete_delay_ms=60_000)
    late = NOW_MS + 100 * HOUR_MS
    box.log.delete_old_segments(late, 3)
    deleted = {name for name in os.listdir(box.directory) if name.endswith(".deleted")}
    expected = {f"{n:020d}.{suffix}.deleted" for n in range(3) for suffix in ("log", "index", "timeindex")}
    assert deleted == expected | {f"{n:020d}.snapshot.deleted" for n in (1, 2)}
    box.log.remove_deleted(late + 59_999)
    assert {name for name in os.listdir(box.directory) if name.endswith(".deleted")} == deleted
    box.log.remove_deleted(late + 60_000)
    assert not [name for name in os.listdir(box.directory) if name.endswith(".deleted")]


def test_read_of_a_deleted_segment_completes(tmp_path: Path) -> None:
    box = box_of_segments(tmp_path, retention_ms=1, file_delete_delay_ms=0)
    segment = box.log.segments[0]
    file = segment.log.file()
    late = NOW_MS + 100 * HOUR_MS
    box.log.delete_old_segments(late, 6)
    box.log.remove_deleted(late)
    assert len(file.read(0, segment.size)) == segment.size


@pytest.mark.parametrize("clean", [True, False])
def test_segments_without_timestamps_use_the_file_time(tmp_path: Path, clean: bool) -> None:
    """Retention uses the file's modification time for batches without timestamps."""
    box = LogBox(tmp_path, config=config(retention_ms=1000))
    box.append(batch(timestamp=-1))
    if clean:
        box.reopen_cleanly()
    else:
        box.reopen_after_kill()
    written_ms = box.directory.joinpath("00000000000000000000.log").stat().st_mtime_ns // 1_000_000
    assert box.log.delete_old_segments(written_ms + 1000, 1) == 0
    assert box.log.delete_old_segments(written_ms + 1001, 1) == 1
