"""Which log is cleaned, and its dirty range."""

from pathlib import Path

import pytest

from odradek.storage.log.compaction import dirtiest_first
from tests.unit.storage.log.compaction_support import CompactedBox
from tests.unit.storage.log.log_support import NOW_MS


def filled(directory: Path, segments: int = 4, **configs: object) -> CompactedBox:
    """Segments of ten offsets each, 1000 ms apart, and an active one."""
    box = CompactedBox(directory, **configs)
    for number in range(segments):
        for _ in range(10):
            box.write((b"k", b"x" * 50), timestamp=NOW_MS + number * 1000)
        box.roll()
    box.write((b"active", b""), timestamp=NOW_MS + segments * 1000)
    return box


def test_log_without_checkpoint_is_dirty_up_to_the_active_segment(tmp_path: Path) -> None:
    found = filled(tmp_path).measure(now_ms=NOW_MS)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 40)
    assert (found.clean_bytes, found.dirty_ratio) == (0, 1.0)


def test_dirty_ratio_counts_bytes(tmp_path: Path) -> None:
    found = filled(tmp_path).measure(clean_offset=30)
    assert found.dirty_ratio == 0.25
    assert not found.is_due
    assert filled(tmp_path / "other", min_cleanable_dirty_ratio=0.2).measure(clean_offset=30).is_due


@pytest.mark.parametrize("clean_offset", [42, 10**9])
def test_checkpoint_above_the_log_end_makes_the_log_dirty(tmp_path: Path, clean_offset: int) -> None:
    found = filled(tmp_path).measure(clean_offset=clean_offset)
    assert found.checkpoint_is_wrong and found.first_dirty_offset == 0


def test_checkpoint_below_the_log_start_makes_the_log_dirty(tmp_path: Path) -> None:
    box = filled(tmp_path)
    box.log.advance_log_start(15)
    found = box.measure(clean_offset=5)
    assert found.checkpoint_is_wrong and found.first_dirty_offset == 15
    assert not box.measure(clean_offset=41).checkpoint_is_wrong


def test_cleaning_stops_at_the_last_stable_offset(tmp_path: Path) -> None:
    box = filled(tmp_path)
    assert box.measure(stable_offset=25).first_uncleanable_offset == 20
    assert box.measure(stable_offset=20).first_uncleanable_offset == 20
    found = box.measure(stable_offset=5)
    assert (found.first_uncleanable_offset, found.cleanable_bytes, found.is_due) == (0, 0, False)
    # Already clean above it, as after an unclean election: nothing to do, and no negative size.
    found = box.measure(stable_offset=5, clean_offset=20)
    assert (found.first_dirty_offset, found.first_uncleanable_offset, found.cleanable_bytes) == (20, 20, 0)


def test_clean_log_is_not_due(tmp_path: Path) -> None:
    found = filled(tmp_path, min_cleanable_dirty_ratio=0.0).measure(clean_offset=40)
    assert (found.cleanable_bytes, found.is_due) == (0, False)


def test_min_compaction_lag_protects_recent_segments(tmp_path: Path) -> None:
    box = filled(tmp_path, min_compaction_lag_ms=1500)
    assert box.measure(now_ms=NOW_MS + 3000).first_uncleanable_offset == 20
    assert box.measure(now_ms=NOW_MS + 2500).first_uncleanable_offset == 20
    assert box.measure(now_ms=NOW_MS + 2499).first_uncleanable_offset == 10
    assert box.measure(now_ms=NOW_MS + 99_999).first_uncleanable_offset == 40


def test_max_compaction_lag_makes_a_log_due(tmp_path: Path) -> None:
    box = filled(tmp_path, max_compaction_lag_ms=10_000)
    assert box.measure(clean_offset=30, now_ms=NOW_MS + 13_000).overdue_ms == 0
    found = box.measure(clean_offset=30, now_ms=NOW_MS + 13_001)
    assert (found.overdue_ms, found.is_due) == (1, True)
    assert not box.measure(clean_offset=40, now_ms=NOW_MS + 99_000).is_due


def test_dirtiest_log_is_cleaned_first(tmp_path: Path) -> None:
    boxes = [filled(tmp_path / str(number)) for number in range(3)]
    measured = [box.measure(clean_offset=offset) for box, offset in zip(boxes, (10, 0, 30), strict=True)]
    assert dirtiest_first(measured) == [measured[1], measured[0]]
