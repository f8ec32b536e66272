"""Replacement by cleaned segments, with a crash after every directory change."""

import errno
from pathlib import Path

import pytest

from odradek.host.disk import HostDisk
from odradek.records.batch import parse_batches
from odradek.storage.log import names
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.segment import Segment
from tests.unit.storage.log.faulty_disk import FaultyDisk
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all

SMALL = config(compact=True, delete=False, segment_bytes=300, segment_index_bytes=1200)


def filled(directory: Path, disk: HostDisk) -> LogBox:
    box = LogBox(directory, disk, config=SMALL)
    for _ in range(12):
        box.append(batch(2, size=20))
    assert len(box.log.segments) >= 4
    return box


def cleaned(log: PartitionLog, disk: HostDisk, group: list[Segment], keep: set[int]) -> Segment:
    """One new segment with those batches of the group that are in `keep`."""
    new = Segment.create(disk, log.directory, group[0].base_offset, SMALL, now_ms=NOW_MS, mark=names.CLEANED_SUFFIX)
    for segment in group:
        for _, header, data in segment.batches():
            if header.base_offset in keep:
                copy = bytes(data)
                new.append(copy, parse_batches(copy))
    new.finish()
    return new


def replace(box: LogBox, disk: HostDisk) -> None:
    group = list(box.log.segments[:3])
    new = cleaned(box.log, disk, group, keep={0, 6})
    box.log.replace_segments([new], group, NOW_MS)


def offsets(log: PartitionLog) -> list[int]:
    return [one.base_offset for one in read_all(log)]


def test_readers_see_replaced_segments(tmp_path: Path) -> None:
    box = filled(tmp_path, HostDisk())
    before = offsets(box.log)
    end = box.log.segments[3].base_offset
    replace(box, box.disk)  # type: ignore[arg-type]
    expected = [0, 6] + [offset for offset in before if offset >= end]
    assert offsets(box.log) == expected
    for offset in range(box.log.log_end_offset):
        (first, *_) = parse_batches(box.log.read(offset, 1 << 20, end_offset_exclusive=box.log.log_end_offset).data)
        assert first.base_offset == next(one for one in expected if one + 1 >= offset)
    assert offsets(box.reopen_after_kill()) == expected
    assert offsets(box.reopen_cleanly()) == expected


def test_crash_at_every_step_of_a_segment_swap(tmp_path: Path) -> None:
    disk = FaultyDisk()
    box = filled(tmp_path / "count", disk)
    before = offsets(box.log)
    end = box.log.segments[3].base_offset
    after = [0, 6] + [offset for offset in before if offset >= end]
    # Offsets 8 to 11 are a segment without retained records: it may be deleted before the rest is replaced.
    assert 8 in [segment.base_offset for segment in box.log.segments]
    between = [offset for offset in before if not 8 <= offset < 12]
    disk.arm(-1)
    replace(box, disk)
    steps = disk.steps
    stages = []
    for at in range(len(steps)):
        disk = FaultyDisk()
        disk.error = errno.EIO
        box = filled(tmp_path / str(at), disk)
        disk.arm(at)
        with pytest.raises(OSError):
            replace(box, disk)
        box.disk = HostDisk()
        for clean in (False, True):
            log = box.open(had_clean_shutdown=clean)
            assert offsets(log) in (before, between, after), steps[at]
            log.close()
        stages.append((before, between, after).index(offsets(log)))
        assert not [name for name in box.files() if name.endswith((".cleaned", ".swap", ".deleted"))]
    # First the old segments are valid, from some step on the new ones.
    assert stages == sorted(stages)
    assert (stages[0], stages[-1]) == (0, 2)
