"""Which files an append opens: with thousands of partitions, each descriptor counts."""

from pathlib import Path

from odradek.records.batch import parse_batches
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config


def open_files(box: LogBox) -> list[str]:
    files = (file for segment in box.log.segments for file in segment._files)
    return [Path(file.path).suffix for file in files if file.is_open]


def can_append_quickly(box: LogBox, data: bytes) -> bool:
    return box.log.can_append_quickly(len(data), parse_batches(data), data, NOW_MS, leader_epoch=box.leader_epoch)


def test_small_append_opens_only_the_batches(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    data = batch(size=100)
    assert not can_append_quickly(box, data), "it would open a file"
    box.append(data)
    assert open_files(box) == [".log"]
    assert can_append_quickly(box, data)


def test_append_with_an_index_entry_is_quick_only_with_open_index_files(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(index_interval_bytes=1000))
    data = batch(size=1500)
    box.append(data)
    box.append(data)
    assert sorted(open_files(box)) == [".index", ".log", ".timeindex"]
    assert can_append_quickly(box, data)
    box.log.flush()
    box.release_idle_files()
    assert not can_append_quickly(box, data)
    box.append(data)
    assert can_append_quickly(box, data)


def test_several_batches_count_the_entries_between_them(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(index_interval_bytes=1000))
    box.append(batch(size=100))
    assert can_append_quickly(box, batch(size=1500))
    assert not can_append_quickly(box, batch(size=1500) + batch(size=100))
