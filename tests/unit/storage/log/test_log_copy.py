from pathlib import Path

import pytest

from odradek.records.batch import CorruptBatch
from odradek.storage.log.log_copy import LogCopy, SourceUnreadable
from odradek.storage.log.partition_log import PartitionLog
from tests.unit.storage.log.log_support import DEFAULTS, NOW_MS, LogBox, batch, config, read_all


def boxes(tmp_path: Path, **options: object) -> tuple[LogBox, LogBox]:
    return LogBox(tmp_path / "source", **options), LogBox(tmp_path / "copy", **options)


def everything(log: PartitionLog) -> bytes:
    found, offset = b"", log.log_start_offset
    while True:
        read = log.read(offset, 1 << 20, end_offset_exclusive=log.log_end_offset)
        if not read.data:
            return found
        found, offset = found + read.data, read.next_offset


def copied(source: LogBox, copy: LogBox) -> LogCopy:
    log_copy = LogCopy(source.log, copy.log)
    log_copy.finish(NOW_MS)
    return log_copy


def test_copy_has_the_same_bytes_epochs_producers_and_transactions(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path, config=config(segment_bytes=2000))
    for number in range(20):
        source.append(batch(3, size=100), epoch=number // 8)
    source.produce(7, 0, 2)
    source.produce(9, 0, is_transactional=True)
    source.end_transaction(9, commit=False)
    source.produce(11, 0, is_transactional=True)
    source.leader_epoch = 5
    source.log.epochs.assign(5, source.log.log_end_offset)
    copied(source, copy)
    assert everything(copy.log) == everything(source.log)
    assert copy.log.log_end_offset == source.log.log_end_offset
    assert copy.log.epochs.entries == source.log.epochs.entries
    assert copy.log.producers.producers == source.log.producers.producers
    end = source.log.log_end_offset
    assert copy.log.aborted_transactions(0, end) == source.log.aborted_transactions(0, end) != []
    assert copy.log.last_stable_offset(end) == source.log.last_stable_offset(end) < end
    assert copy.log.recovery_point == end


def test_copy_without_topic_id_gets_it_again(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path)
    source.append(batch(3))
    (copy.directory / "partition.metadata").write_bytes(b"")
    copy.open(topic_id=None)
    log_copy = LogCopy(source.log, copy.log)
    log_copy.agree(NOW_MS)
    log_copy.finish(NOW_MS)
    assert copy.log.topic_id == source.log.topic_id
    metadata = [(box.directory / "partition.metadata").read_bytes() for box in (source, copy)]
    assert metadata[0] == metadata[1] != b""


def test_copy_progresses_by_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.storage.log.log_copy.CHUNK_BYTES", 500)
    source, copy = boxes(tmp_path, config=config(segment_bytes=2000))
    for _ in range(10):
        source.append(batch(size=300))
    log_copy = LogCopy(source.log, copy.log)
    steps = []
    while not steps or not steps[-1].caught_up:
        steps.append(log_copy.advance(NOW_MS))
    # One batch per step, over several segments, until at most one chunk is left.
    assert {step.copied_bytes for step in steps} == {source.log.size_bytes // 10}
    assert [step.caught_up for step in steps] == [False] * 8 + [True]
    assert copy.log.log_end_offset == 9


def test_copy_of_an_empty_log_that_starts_after_0(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path)
    source.log.truncate_fully_to(42, NOW_MS)
    copied(source, copy)
    assert (copy.log.log_start_offset, copy.log.log_end_offset) == (42, 42)


def test_copy_of_a_log_start_inside_a_batch(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path)
    source.append(batch(5))
    source.append(batch(5))
    source.log.advance_log_start(7)
    copied(source, copy)
    assert (copy.log.log_start_offset, copy.log.log_end_offset) == (7, 10)
    assert [header.base_offset for header in read_all(copy.log)] == [5]


def test_log_start_that_overtakes_the_copy(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path)
    source.append(batch(5))
    log_copy = LogCopy(source.log, copy.log)
    log_copy.advance(NOW_MS)
    source.append(batch(5))
    source.append(batch(5))
    source.log.advance_log_start(10)
    log_copy.finish(NOW_MS)
    assert (copy.log.log_start_offset, copy.log.log_end_offset) == (10, 15)
    assert everything(copy.log) == everything(source.log)


def test_log_end_known_only_from_an_empty_segment(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path, config=config(compact=True, delete=False))
    source.append(batch(5))
    # As if compaction had removed offsets 5 to 9.
    source.log.roll(NOW_MS, at_least=10)
    source.log.log_end_offset = 10
    copied(source, copy)
    assert copy.log.log_end_offset == 10
    assert copy.reopen_after_kill().log_end_offset == 10


def test_batch_larger_than_the_current_segment_bytes(tmp_path: Path) -> None:
    source = LogBox(tmp_path / "source")
    copy = LogBox(tmp_path / "copy", config=config(segment_bytes=700))
    for _ in range(5):
        source.append(batch(size=200))
    copied(source, copy)
    assert everything(copy.log) == everything(source.log)


def test_copy_replaces_the_partitions_log(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path)
    source.produce(7, 0, 3)
    copied(source, copy)
    reopened = copy.reopen_cleanly()
    assert everything(reopened) == everything(source.log)
    assert reopened.producers.producers == source.log.producers.producers
    copy.produce(7, 3)
    assert copy.log.log_end_offset == 4


class TestAgreeing:
    def test_copy_resumes_where_it_stopped(self, tmp_path: Path) -> None:
        source, copy = boxes(tmp_path)
        source.append(batch(5))
        LogCopy(source.log, copy.log).advance(NOW_MS)
        source.append(batch(5))
        log_copy = LogCopy(source.log, copy.log)
        log_copy.agree(NOW_MS)
        assert copy.log.log_end_offset == 5
        log_copy.finish(NOW_MS)
        assert everything(copy.log) == everything(source.log)

    def test_copy_is_truncated_to_what_the_original_kept_after_a_crash(self, tmp_path: Path) -> None:
        source, copy = boxes(tmp_path)
        source.append(batch(5), epoch=1)
        source.append(batch(5), epoch=1)
        LogCopy(source.log, copy.log).finish(NOW_MS)
        source.log.truncate_to(5, NOW_MS)
        # The next leader epoch writes other records to the same offsets.
        source.append(batch(7, size=20), epoch=2)
        log_copy = LogCopy(source.log, copy.log)
        log_copy.agree(NOW_MS)
        assert copy.log.log_end_offset == 5
        log_copy.finish(NOW_MS)
        assert everything(copy.log) == everything(source.log)
        assert copy.log.epochs.entries == source.log.epochs.entries

    @pytest.mark.parametrize("is_copied_meanwhile", [False, True])
    def test_truncation_of_the_original_truncates_the_copy(self, tmp_path: Path, is_copied_meanwhile: bool) -> None:
        source, copy = boxes(tmp_path)
        source.append(batch(5), epoch=1)
        source.append(batch(5), epoch=1)
        log_copy = LogCopy(source.log, copy.log)
        log_copy.agree(NOW_MS)
        log_copy.advance(NOW_MS)
        assert copy.log.log_end_offset == 10
        # A leader of a later epoch does not have them and appends more records.
        source.log.truncate_to(5, NOW_MS)
        if is_copied_meanwhile:
            log_copy.advance(NOW_MS)
            assert copy.log.log_end_offset == 5
        for _ in range(3):
            source.append(batch(5, size=20), epoch=2)
        log_copy.finish(NOW_MS)
        assert everything(copy.log) == everything(source.log)
        assert copy.log.epochs.entries == source.log.epochs.entries

    def test_changed_end_of_the_original_is_detected_by_epochs(self, tmp_path: Path) -> None:
        source, copy = boxes(tmp_path)
        source.append(batch(5), epoch=1)
        copy.append(batch(5), epoch=1)
        source.append(batch(5), epoch=2)
        copy.append(batch(2), epoch=1)
        copy.append(batch(3), epoch=2)
        log_copy = LogCopy(source.log, copy.log)
        log_copy.agree(NOW_MS)
        assert copy.log.log_end_offset == 5
        log_copy.finish(NOW_MS)
        assert everything(copy.log) == everything(source.log)

    def test_copy_that_starts_later_in_an_epoch_is_kept(self, tmp_path: Path) -> None:
        source, copy = boxes(tmp_path)
        for _ in range(3):
            source.append(batch(5), epoch=1)
        source.log.advance_log_start(5)
        log_copy = LogCopy(source.log, copy.log)
        log_copy.advance(NOW_MS)
        log_copy.agree(NOW_MS)
        assert (copy.log.log_start_offset, copy.log.log_end_offset) == (5, 15)

    def test_copy_of_another_history_restarts(self, tmp_path: Path) -> None:
        source, copy = boxes(tmp_path)
        source.append(batch(5), epoch=1)
        copy.append(batch(9, size=30), epoch=4)
        log_copy = LogCopy(source.log, copy.log)
        log_copy.agree(NOW_MS)
        log_copy.finish(NOW_MS)
        assert everything(copy.log) == everything(source.log)


def test_corrupt_batch_is_not_copied(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path)
    source.append(batch(5, size=50))
    source.log.release_files()
    (log_file,) = source.directory.glob("*.log")
    damaged = bytearray(log_file.read_bytes())
    damaged[100] ^= 1
    log_file.write_bytes(damaged)
    with pytest.raises(CorruptBatch):
        LogCopy(source.log, copy.log).finish(NOW_MS)
    assert copy.log.log_end_offset == 0


def test_copy_error_names_the_failed_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, copy = boxes(tmp_path)
    source.append(batch(5))

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(source.log, "read", broken)
        with pytest.raises(SourceUnreadable):
            LogCopy(source.log, copy.log).advance(NOW_MS)
    monkeypatch.setattr(copy.log, "append_as_follower", broken)
    with pytest.raises(OSError, match="Input/output"):
        LogCopy(source.log, copy.log).advance(NOW_MS)


def test_copy_uses_a_changed_config(tmp_path: Path) -> None:
    source, copy = boxes(tmp_path)
    changed = config(retention_ms=1)
    source.log.update_config(changed)
    copied(source, copy)
    assert copy.log.config is changed is not DEFAULTS
