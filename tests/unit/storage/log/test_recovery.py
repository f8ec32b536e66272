"""Recovery after a crash at every byte."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.records.batch import parse_batches
from odradek.storage.log import recovery
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.segment import Segment
from tests.slow_recovery import append_unflushed
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all

INDEXES = ("index", "timeindex")


def wholes(log: PartitionLog) -> list[tuple[int, int, int]]:
    return [(one.base_offset, one.last_offset, one.crc) for one in read_all(log)]


def last_log_file(box: LogBox) -> Path:
    return max(box.directory.glob("*.log"))


def filled(directory: Path, count: int = 12, **options: Any) -> LogBox:
    """Several segments, transactions, a producer and several epochs; not closed."""
    box = LogBox(
        directory, config=config(segment_bytes=900, index_interval_bytes=150, segment_index_bytes=1200), **options
    )
    for n in range(count):
        box.append(batch(2, size=30, timestamp=NOW_MS + n), epoch=n // 5)
        box.produce(1, n, is_transactional=True)
        if n % 4 == 3:
            box.end_transaction(1, commit=n % 8 == 3)
    box.log.release_files()
    return box


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(7, marks=pytest.mark.tier("test")),
        pytest.param(1, marks=pytest.mark.tier("proof")),
    ],
)
def test_recovery_after_truncation_at_every_byte_of_the_last_segment(tmp_path: Path, step: int) -> None:
    box = filled(tmp_path / "whole")
    expected = wholes(box.log)
    data = last_log_file(box).read_bytes()
    base = int(last_log_file(box).stem)
    ends = [header.position + header.size for header in parse_batches(data)]
    for size in range(0, len(data), step):
        copy = box.copy_to(tmp_path / f"truncated-{size}")
        with open(last_log_file(copy), "r+b") as file:
            file.truncate(size)
        log = copy.open()
        whole = sum(end <= size for end in ends)
        kept = [one for one in expected if one[0] < base] + [one for one in expected if one[0] >= base][:whole]
        assert wholes(log) == kept
        assert log.log_end_offset == (kept[-1][1] + 1 if whole else base)
        # Appending continues from there, and a second start finds the same.
        copy.append(batch(), epoch=9)
        again = wholes(log)
        assert wholes(copy.reopen_after_kill()) == again
        shutil.rmtree(tmp_path / f"truncated-{size}")


@pytest.mark.tier("test")
def test_recovery_truncates_at_flipped_bits(tmp_path: Path) -> None:
    box = filled(tmp_path / "whole")
    expected = wholes(box.log)
    path = last_log_file(box)
    data = path.read_bytes()
    base = int(path.stem)
    headers = parse_batches(data)
    choose = random.Random(5)
    for n in range(200):
        position = choose.randrange(len(data))
        bit = 1 << choose.randrange(8)
        copy = box.copy_to(tmp_path / f"flip-{n}")
        damaged = bytearray(data)
        damaged[position] ^= bit
        last_log_file(copy).write_bytes(damaged)
        hit = next(one for one in headers if one.position <= position < one.position + one.size)
        log = copy.open()
        found = wholes(log)
        intact = [one for one in expected if one[0] < base + hit.base_offset - headers[0].base_offset]
        at = position - hit.position
        if at < 8 or 12 <= at < 16:
            # The CRC does not cover base offset and leader epoch: the rest has to be consistent nevertheless.
            assert found[: len(intact)] == intact
            offsets = [offset for one in found for offset in (one[0], one[1] + 1)]
            assert offsets == sorted(offsets)
        else:
            assert found == intact
        shutil.rmtree(tmp_path / f"flip-{n}")


def test_recovery_scans_only_unflushed_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = filled(tmp_path)
    segments = [segment.base_offset for segment in box.log.segments]
    assert len(segments) > 3
    scanned: list[int] = []
    real = recovery.recover_segment

    def noted(segment: Segment, *rest: Any) -> int:
        scanned.append(segment.base_offset)
        return real(segment, *rest)

    monkeypatch.setattr(recovery, "recover_segment", noted)
    box.open(recovery_point=segments[2] + 1)
    assert scanned == segments[2:]
    scanned.clear()
    box.open(recovery_point=segments[-1] + 1)
    assert scanned == segments[-1:]
    scanned.clear()
    # The checkpoint may be older than the last segment: then the previous segment's indexes are not synced.
    box.open(recovery_point=segments[-1])
    assert scanned == segments[-2:]
    scanned.clear()
    box.log.close()
    box.open(had_clean_shutdown=True)
    assert scanned == []


def test_recovery_progress_counts_bytes(tmp_path: Path) -> None:
    box = filled(tmp_path)
    reported: list[tuple[int, int]] = []
    box.open(progress=lambda done, total: reported.append((done, total)))
    assert [total for _, total in reported] == [box.log.size_bytes] * len(box.log.segments)
    assert reported[-1][0] == box.log.size_bytes
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)


def test_recovery_of_small_batches_reports_its_progress(tmp_path: Path) -> None:
    """A node that stops meanwhile ends the recovery with its next report."""
    box = filled(tmp_path, count=1)
    box.log.close()
    batches = 35_000
    for file in box.directory.glob("*.*"):
        if file.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            file.unlink()
    append_unflushed(box.directory, batches=batches)
    scanned: list[int] = []
    log = box.open(progress=lambda done, total: scanned.append(done))
    assert log.log_end_offset == batches
    assert len(scanned) == 4


def test_recovery_rebuilds_the_same_indexes(tmp_path: Path) -> None:
    box = filled(tmp_path, count=40)
    box.log.close()
    before = box.files()
    for path in box.directory.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            path.unlink()
    box.open(had_clean_shutdown=False)
    box.log.close()
    after = box.files()
    for name in before:
        if not name.endswith(".snapshot"):
            assert after[name] == before[name], name


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_missing_index_of_a_flushed_segment_is_rebuilt(tmp_path: Path, suffix: str) -> None:
    box = filled(tmp_path, count=40)
    expected = wholes(box.log)
    aborted = box.log.aborted_transactions(0, box.log.log_end_offset)
    box.log.close()
    before = box.files()
    victim = sorted(box.directory.glob(f"*.{suffix}"))[1]
    victim.unlink()
    log = box.open(had_clean_shutdown=True)
    assert wholes(log) == expected
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    assert victim.read_bytes() == before[victim.name]


def test_gap_in_an_earlier_segment_ends_the_log(tmp_path: Path) -> None:
    box = filled(tmp_path)
    expected = wholes(box.log)
    second = sorted(box.directory.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[-1] ^= 1
    second.write_bytes(data)
    log = box.open()
    found = wholes(log)
    assert found == expected[: len(found)]
    assert log.segments[-1].base_offset == int(second.stem)
    assert sorted(path.stem for path in box.directory.glob("*.log")) == [
        f"{segment.base_offset:020d}" for segment in log.segments
    ]


def test_kill_during_roll(tmp_path: Path) -> None:
    """After each file of the new segment, with the old segment's indexes trimmed or not."""
    box = LogBox(tmp_path / "whole", config=config(index_interval_bytes=50))
    for n in range(6):
        box.produce(1, n)
    before = box.copy_to(tmp_path / "before")
    box.log.roll(NOW_MS)
    expected = [(n, n) for n in range(6)]
    names = sorted(name for name in os.listdir(box.directory) if name not in os.listdir(before.directory))
    assert len(names) == 4
    for count in range(len(names) + 1):
        for trimmed in (False, True):
            copy = box.copy_to(tmp_path / f"{count}-{trimmed}")
            for name in names[count:]:
                os.unlink(copy.directory / name)
            if not trimmed:
                for suffix in INDEXES:
                    name = f"{0:020d}.{suffix}"
                    shutil.copy(before.directory / name, copy.directory / name)
            log = copy.open()
            assert [one[:2] for one in wholes(log)] == expected
            assert copy.produce(1, 5).duplicate
            assert copy.produce(1, 6)[:2] == (6, 6)


def test_preallocated_zeros_are_truncated(tmp_path: Path) -> None:
    box = filled(tmp_path)
    expected = wholes(box.log)
    with open(last_log_file(box), "ab") as file:
        file.write(b"\0" * 100_000)
    assert wholes(box.open()) == expected


@pytest.mark.parametrize("garbage", [b"\xff" * 70, b"\0" * 61, b"\x7f\xff\xff\xff" * 30, b"x"])
def test_garbage_after_the_last_batch_is_truncated(tmp_path: Path, garbage: bytes) -> None:
    box = filled(tmp_path)
    expected = wholes(box.log)
    with open(last_log_file(box), "ab") as file:
        file.write(garbage)
    assert wholes(box.open()) == expected


def test_leftover_files_are_removed(tmp_path: Path) -> None:
    box = filled(tmp_path)
    expected = wholes(box.log)
    box.log.close()
    stray = {
        "00000000000000009999.index": b"12345678",
        "00000000000000009999.timeindex": b"",
        "00000000000000000000.log.deleted": b"old",
        "00000000000000000000.index.cleaned": b"",
        "00000000000000000000.log.cleaned": b"half",
        "00000000000000009998.snapshot.deleted": b"",
    }
    kept = {"00000000000000000007-0000000001.checkpoint.deleted": b"", "notes.txt": b"not ours"}
    for name, content in (stray | kept).items():
        (box.directory / name).write_bytes(content)
    assert wholes(box.open(had_clean_shutdown=True)) == expected
    left = set(os.listdir(box.directory))
    assert not left & set(stray)
    assert set(kept) <= left


def test_leader_epochs_are_truncated_with_the_log(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch(2), epoch=1)
    box.append(batch(2), epoch=4)
    box.log.epochs.assign(6, 4)
    box.log.release_files()
    with open(last_log_file(box), "r+b") as file:
        file.truncate(len(batch(2)) + 5)
    log = box.open()
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0)]
    log.flush()
    assert box.files()["leader-epoch-checkpoint"] == b"0\n1\n1 0\n"


def test_missing_epoch_file_is_rebuilt_from_unflushed_batches(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch(2), epoch=0)
    box.append(batch(2), epoch=4)
    (box.directory / "leader-epoch-checkpoint").unlink()
    log = box.reopen_after_kill()
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (4, 2)]


def test_log_start_inside_a_segment_survives(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch(10), epoch=2)
    log = box.reopen_after_kill(log_start_offset=4)
    assert log.log_start_offset == 4
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 4)]


def test_segments_below_the_log_start_are_dropped(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch(10))
    log = box.reopen_after_kill(log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert box.append(batch(1))[:2] == (50, 50)
    assert log.epochs.entries[0].start_offset == 50


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 5), st.integers(0, 120)),
            st.tuples(st.just("produce"), st.integers(1, 3), st.booleans()),
            st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
            st.tuples(st.just("roll")),
            st.tuples(st.just("flush")),
            st.tuples(st.just("kill"), st.integers(0, 300)),
            st.tuples(st.just("stop")),
            st.tuples(st.just("truncate"), st.integers(0, 10)),
        ),
        max_size=30,
    )
)
def test_random_operations_with_crashes(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    """Flushed records survive every kill with the same bytes and offsets, and so does the producer state."""
    box = LogBox(tmp_path_factory.mktemp("life"), config=config(segment_bytes=800, index_interval_bytes=100))
    for step in steps:
        log = box.log
        match step:
            case ("append", count, size):
                box.append(batch(count, size=size))
            case ("produce", producer, transactional):
                entry = log.producers.producers.get(producer)
                if entry is not None and entry.transaction_first_offset >= 0:
                    transactional = True
                box.produce(producer, 0 if entry is None else entry.last_sequence + 1, is_transactional=transactional)
            case ("end", producer, commit):
                if producer in log.producers.producers:
                    box.end_transaction(producer, commit=commit)
            case ("roll",):
                log.roll(NOW_MS)
            case ("flush",):
                log.flush()
            case ("stop",):
                expected = wholes(log)
                assert wholes(box.reopen_cleanly()) == expected
            case ("truncate", back):
                # Leader epochs end with whole batches.
                begins = [log.log_end_offset, *(one[0] for one in reversed(wholes(log)))]
                log.truncate_to(begins[min(back, len(begins) - 1)], NOW_MS)
            case ("kill", lost_bytes):
                expected = wholes(log)
                flushed = log.recovery_point
                log.release_files()
                path = last_log_file(box)
                first = log.segments[-1]
                keep = first.position_of(flushed) if flushed > first.base_offset else 0
                with open(path, "r+b") as file:
                    file.truncate(max(keep, path.stat().st_size - lost_bytes))
                log = box.reopen_after_kill(recovery_point=flushed)
                found = wholes(log)
                assert found == expected[: len(found)]
                assert log.log_end_offset >= flushed
    log = box.log
    expected_producers = dict(log.producers.producers)
    expected_aborted = log.aborted_transactions(0, log.log_end_offset)
    stable = log.last_stable_offset(log.log_end_offset)
    reopened = box.reopen_after_kill(recovery_point=log.recovery_point)
    found_producers = reopened.producers.producers
    assert {pid: one.epoch for pid, one in found_producers.items()} == {
        pid: one.epoch for pid, one in expected_producers.items()
    }
    for producer_id, entry in expected_producers.items():
        assert found_producers[producer_id].last_sequence == entry.last_sequence
        assert found_producers[producer_id].transaction_first_offset == entry.transaction_first_offset
    assert reopened.aborted_transactions(0, reopened.log_end_offset) == expected_aborted
    assert reopened.last_stable_offset(reopened.log_end_offset) == stable


def test_flush_messages_1_syncs_recovered_records_before_serving(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(flush_messages=1))
    box.append(batch(3))
    log = box.reopen_after_kill()
    assert (log.recovery_point, log.log_end_offset) == (3, 3)
    box = LogBox(tmp_path / "unsynced")
    box.append(batch(3))
    log = box.reopen_after_kill()
    assert (log.recovery_point, log.log_end_offset) == (0, 3)


@pytest.mark.parametrize("left", [0, 1])
def test_segment_without_its_last_batches_ends_the_log(tmp_path: Path, left: int) -> None:
    box = LogBox(tmp_path)
    for _ in range(3):
        for _ in range(2):
            box.append(batch(3))
        box.log.roll(NOW_MS)
    middle = box.log.segments[1].log.path
    box.log.release_files()
    os.truncate(middle, left * len(batch(3)))
    log = box.open()
    assert log.log_end_offset == 6 + left * 3
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert box.append(batch(1)).first_offset == log.log_end_offset - 1


def test_compacted_segment_may_end_before_the_next_base_offset(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(compact=True, delete=False))
    for _ in range(2):
        for _ in range(2):
            box.append(batch(3))
        box.log.roll(NOW_MS)
    box.log.release_files()
    os.truncate(box.log.segments[0].log.path, len(batch(3)))
    assert box.open().log_end_offset == 12


@pytest.mark.parametrize("missing", [False, True])
def test_rebuilt_indexes_are_synced_before_they_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    box = filled(tmp_path)
    bases = [segment.base_offset for segment in box.log.segments]
    assert len(bases) > 3
    end = box.log.log_end_offset
    box.log.release_files()
    recovery_point = 0
    if missing:
        # The start of the log was flushed, and its indexes were removed.
        os.remove(box.log.segments[0].offset_index.path)
        recovery_point = bases[2] + 1
    log = box.open(recovery_point=recovery_point)
    assert log.recovery_point == 0
    synced: list[int] = []
    monkeypatch.setattr(Segment, "sync_indexes", lambda segment: synced.append(segment.base_offset))
    log.flush()
    assert synced == ([bases[0], *bases[2:-1]] if missing else bases[:-1])
    assert log.recovery_point == end
