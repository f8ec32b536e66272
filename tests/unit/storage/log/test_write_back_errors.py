"""A failed write-back is reported by the next sync, because files with unsynced data stay open until then."""

from pathlib import Path

import pytest

from odradek.records.batch import parse_batches
from odradek.storage.log.lazy_file import LazyFile
from odradek.storage.log.log_copy import LogCopy
from tests.unit.storage.log.compaction_support import CompactedBox
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all
from tests.unit.storage.log.write_back import WriteBackDisk


@pytest.fixture
def disk() -> WriteBackDisk:
    return WriteBackDisk()


def test_batches_of_an_idle_log(tmp_path: Path, disk: WriteBackDisk) -> None:
    box = LogBox(tmp_path, disk)
    box.append(batch())
    box.release_idle_files()
    disk.fail_write_back(".log")
    with pytest.raises(OSError, match="write-back failed"):
        box.log.flush()


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_files_of_a_closed_segment(tmp_path: Path, disk: WriteBackDisk, suffix: str) -> None:
    box = LogBox(tmp_path, disk, config=config(index_interval_bytes=10))
    for n in range(3):
        box.produce(1, n, timestamp=NOW_MS + n, is_transactional=True)
    box.end_transaction(1, commit=False)
    box.log.roll(NOW_MS)
    box.release_idle_files()
    disk.fail_write_back(suffix)
    with pytest.raises(OSError, match="write-back failed"):
        box.log.flush()


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_indexes_that_were_written_before_the_segment_was_idle(
    tmp_path: Path, disk: WriteBackDisk, suffix: str
) -> None:
    box = LogBox(tmp_path, disk, config=config(index_interval_bytes=10))
    for n in range(3):
        box.produce(1, n, timestamp=NOW_MS + n, is_transactional=True)
    box.end_transaction(1, commit=False)
    box.log.flush()
    box.release_idle_files()
    disk.fail_write_back(suffix)
    box.append(batch())
    box.log.roll(NOW_MS)
    with pytest.raises(OSError, match="write-back failed"):
        box.log.flush()


def test_truncated_tail_of_a_recovered_log(tmp_path: Path, disk: WriteBackDisk) -> None:
    box = LogBox(tmp_path, disk, config=config(index_interval_bytes=10))
    for _ in range(4):
        box.append(batch())
    box.log.roll(NOW_MS)
    box.append(batch())
    # The indexes are rebuilt.
    box.reopen_after_kill()
    box.release_idle_files()
    disk.fail_write_back(".index")
    with pytest.raises(OSError, match="write-back failed"):
        box.log.flush()


@pytest.mark.parametrize("commit", [True, False])
def test_compacted_segment_is_synced_before_its_files_are_closed(
    tmp_path: Path, disk: WriteBackDisk, commit: bool
) -> None:
    """They may have been written by another process, whose errors this one would miss."""
    box = CompactedBox(tmp_path, disk)
    for n in range(20):
        fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": n, "is_transactional": True}
        box.write((b"key %d" % n, b"value" * 20), **fields)
    box.end_transaction(1, commit=commit)
    box.roll()
    *_, last = box.new_pass().steps()
    assert last.finished is not None
    written = set(tmp_path.rglob("*.cleaned"))
    assert {path.suffixes[0] for path in written} >= {".log", ".index", ".timeindex"}
    assert not disk.dirty & {str(path) for path in written}


def test_future_log_of_a_log_dir_move(tmp_path: Path, disk: WriteBackDisk) -> None:
    source, copy = LogBox(tmp_path / "source"), LogBox(tmp_path / "copy", disk)
    source.append(batch())
    moved = LogCopy(source.log, copy.log)
    moved.agree(NOW_MS)
    moved.advance(NOW_MS)
    copy.release_idle_files()
    disk.fail_write_back(".log")
    with pytest.raises(OSError, match="write-back failed"):
        moved.finish(NOW_MS)


def test_topic_id_is_written_again_with_the_first_flush(tmp_path: Path, disk: WriteBackDisk) -> None:
    """New partitions keep no file open for it: there may be thousands of them."""
    box = LogBox(tmp_path, disk)
    path = box.directory / "partition.metadata"
    content = path.read_bytes()
    assert not disk.open_files
    # The write-back failed, and the kernel dropped the page.
    path.write_bytes(b"")
    box.append(batch())
    box.log.flush()
    assert path.read_bytes() == content
    assert str(path) not in disk.dirty


def test_synced_files_of_idle_segments_are_closed(tmp_path: Path, disk: WriteBackDisk) -> None:
    box = LogBox(tmp_path, disk, config=config(segment_bytes=200, index_interval_bytes=10))
    for n in range(5):
        box.produce(1, n)
    box.log.flush()
    box.release_idle_files()
    assert {Path(file.path).name for file in disk.open_files if file.path in disk.dirty} <= {
        Path(box.log.active_segment.offset_index.path).name,
        Path(box.log.active_segment.time_index.path).name,
    }
    assert not [file for file in disk.open_files if file.path not in disk.dirty]
    assert len(read_all(box.log)) == 5
    box.log.close()
    assert not disk.open_files


def test_deleted_and_abandoned_files_are_closed_with_unsynced_data(tmp_path: Path, disk: WriteBackDisk) -> None:
    box = LogBox(tmp_path, disk)
    box.append(batch())
    box.log.truncate_fully_to(7, NOW_MS)
    assert not [file for file in disk.open_files if file.path.endswith("0000.log")]
    data = bytearray(batch(base_offset=7))
    box.log.append_as_follower(data, parse_batches(data), now_ms=NOW_MS)
    box.log.abandon_files()
    assert not [file for file in disk.open_files if not file.path.endswith(".snapshot")]


def test_file_with_unsynced_data_is_never_opened_twice(tmp_path: Path, disk: WriteBackDisk) -> None:
    file = LazyFile(disk, str(tmp_path / "file"))
    file.create().write_at(0, b"data")
    file.on_write()
    file.release()
    assert file.is_open
    # As if it had been closed by mistake.
    file._slot.clear()
    with pytest.raises(AssertionError, match="unsynced"):
        file.get()
