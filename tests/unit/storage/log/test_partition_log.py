import contextlib
import os
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import parse_batches
from odradek.records.decode import decode_batch
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all


def test_new_log_is_empty(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    log = box.log
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert sorted(box.files()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]
    assert len(box.files()["00000000000000000000.index"]) == 10485760
    assert len(box.files()["00000000000000000000.timeindex"]) == 10485756
    assert box.files()["partition.metadata"] == b"version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"


def test_leader_assigns_offsets_and_epoch(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    assert box.append(batch(3), epoch=5)[:2] == (0, 2)
    assert box.append(batch(2), epoch=5)[:2] == (3, 4)
    assert box.append(batch(1) + batch(4), epoch=7)[:2] == (5, 9)
    headers = read_all(box.log)
    assert [(one.base_offset, one.last_offset, one.leader_epoch) for one in headers] == [
        (0, 2, 5),
        (3, 4, 5),
        (5, 5, 7),
        (6, 9, 7),
    ]
    assert [tuple(entry) for entry in box.log.epochs.entries] == [(5, 0), (7, 5)]
    assert box.files()["leader-epoch-checkpoint"] == b"0\n2\n5 0\n7 5\n"


@pytest.mark.parametrize("cached", [True, False])
def test_read_returns_whole_batches(tmp_path: Path, cached: bool) -> None:
    box = LogBox(tmp_path)
    for _ in range(50):
        box.append(batch(2, size=100))
    size = len(batch(2, size=100))
    read = box.log.read_cached if cached else box.log.read
    for max_bytes in (size, size + 1, 2 * size - 1, 2 * size, 7 * size + 3, 50 * size, 1 << 20):
        found = read(0, max_bytes, end_offset_exclusive=100)
        assert found is not None
        count = min(max_bytes // size, 50)
        assert len(found.data) == count * size
        assert found.next_offset == count * 2
        assert [one.base_offset for one in parse_batches(found.data)] == list(range(0, count * 2, 2))


def test_read_starts_with_the_batch_that_contains_the_offset(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(index_interval_bytes=200))
    for _ in range(100):
        box.append(batch(3, size=50))
    for offset in range(300):
        found = box.log.read(offset, 1, end_offset_exclusive=300)
        (header,) = parse_batches(found.data)
        assert header.base_offset == offset // 3 * 3
        assert found.next_offset == header.next_offset
        assert decode_batch(found.data, header)[offset % 3].offset == offset


def test_read_stops_below_the_end_offset(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=2000, index_interval_bytes=300))
    for _ in range(60):
        box.append(batch(2, size=100))
    assert len(box.log.segments) > 3
    for end in range(0, 121, 2):
        offset = 0
        while offset < end:
            found = box.log.read(offset, 1000, end_offset_exclusive=end)
            headers = parse_batches(found.data)
            assert headers[0].base_offset == offset
            assert headers[-1].last_offset < end
            offset = headers[-1].next_offset
        assert offset == end
        assert box.log.read(end, 1000, end_offset_exclusive=end).data == b""
    assert box.log.read(100, 1000, end_offset_exclusive=50).data == b""


def test_first_batch_may_exceed_max_bytes(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch(1, size=5000))
    box.append(batch(1, size=5000))
    found = box.log.read(0, 100, end_offset_exclusive=2, min_one_message=True)
    assert len(parse_batches(found.data)) == 1
    found = box.log.read(0, 100, end_offset_exclusive=2, min_one_message=False)
    assert found.data == b""
    assert found.next_offset == 0
    assert len(parse_batches(box.log.read(0, 0, end_offset_exclusive=2).data)) == 1


def test_read_out_of_range(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch(10))
    box.log.advance_log_start(4)
    for offset in (-1, 3, 11):
        with pytest.raises(KafkaError) as caught:
            box.log.read(offset, 100, end_offset_exclusive=10)
        assert caught.value.code is ErrorCode.offset_out_of_range
    assert box.log.read(10, 100, end_offset_exclusive=10).data == b""
    # The whole batch is returned; the consumer skips the records before its offset.
    assert parse_batches(box.log.read(4, 100, end_offset_exclusive=10).data)[0].base_offset == 0


def test_rolls_by_size(tmp_path: Path) -> None:
    data = batch(1, size=400)
    box = LogBox(tmp_path, config=config(segment_bytes=3 * len(data)))
    rolled = [box.append(data).rolled_at for _ in range(10)]
    assert rolled == [-1, -1, -1, 3, -1, -1, 6, -1, -1, 9]
    assert [segment.base_offset for segment in box.log.segments] == [0, 3, 6, 9]
    assert {name for name in box.files() if name.endswith(".snapshot")} == {
        "00000000000000000003.snapshot",
        "00000000000000000006.snapshot",
        "00000000000000000009.snapshot",
    }
    # The indexes of a closed segment are trimmed, and the time index ends with the max timestamp.
    assert len(box.files()["00000000000000000003.timeindex"]) == 12
    assert len(box.files()["00000000000000000003.index"]) == 0
    assert len(read_all(box.log)) == 10


def test_rolls_by_the_age_of_its_first_batch(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_ms=1000))
    box.append(batch(timestamp=NOW_MS))
    box.append(batch(timestamp=NOW_MS + 1000))
    assert len(box.log.segments) == 1
    assert box.append(batch(timestamp=NOW_MS + 1001)).rolled_at == 2
    # Without timestamps the wall clock counts.
    box.log.roll(NOW_MS)
    box.append(batch(timestamp=-1), now_ms=NOW_MS)
    box.append(batch(timestamp=-1), now_ms=NOW_MS + 1000)
    assert box.append(batch(timestamp=-1), now_ms=NOW_MS + 1001).rolled_at == 5


def test_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_index_bytes=40, index_interval_bytes=0))
    for n in range(20):
        box.append(batch(timestamp=NOW_MS + n))
    assert len(box.log.segments) > 3
    assert all(segment.time_index.entries <= 3 for segment in box.log.segments)
    assert [one.base_offset for one in read_all(box.log)] == list(range(20))


def test_rolls_before_relative_offsets_overflow(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.append(batch())
    far = bytearray(batch(base_offset=2**31 - 1, leader_epoch=0))
    box.log.append_as_follower(far, parse_batches(far), now_ms=NOW_MS)
    assert len(box.log.segments) == 1
    farther = bytearray(batch(base_offset=2**31 + 5, leader_epoch=0))
    box.log.append_as_follower(farther, parse_batches(farther), now_ms=NOW_MS)
    assert [segment.base_offset for segment in box.log.segments] == [0, 2**31]
    assert [one.base_offset for one in read_all(box.log)] == [0, 2**31 - 1, 2**31 + 5]


def test_follower_append_keeps_offsets_and_rejects_old_ones(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    data = bytearray(batch(2, base_offset=10, leader_epoch=3) + batch(1, base_offset=20, leader_epoch=4))
    assert box.log.append_as_follower(data, parse_batches(data), now_ms=NOW_MS)[:2] == (10, 20)
    assert [tuple(entry) for entry in box.log.epochs.entries] == [(3, 10), (4, 20)]
    late = bytearray(batch(1, base_offset=20, leader_epoch=4))
    with pytest.raises(KafkaError):
        box.log.append_as_follower(late, parse_batches(late), now_ms=NOW_MS)
    # A gap, as compaction leaves it, is skipped.
    assert parse_batches(box.log.read(12, 1000, end_offset_exclusive=21).data)[0].base_offset == 20


def test_batch_larger_than_a_segment_is_rejected(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=500))
    with pytest.raises(KafkaError) as caught:
        box.append(batch(1, size=600))
    assert caught.value.code is ErrorCode.record_list_too_large
    assert box.log.log_end_offset == 0
    assert box.append(batch(1))[:2] == (0, 0)


def test_offset_lookup_by_timestamp(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=2000, index_interval_bytes=100))
    for n in range(40):
        box.append(batch(3, timestamp=NOW_MS + n * 100, step_ms=10, size=60))
    assert len(box.log.segments) > 2
    for n in range(40):
        for step in range(3):
            found = box.log.offset_for_timestamp(NOW_MS + n * 100 + step * 10)
            assert found is not None
            assert tuple(found) == (NOW_MS + n * 100 + step * 10, n * 3 + step, 0)
    assert box.log.offset_for_timestamp(0) == (NOW_MS, 0, 0)
    assert box.log.offset_for_timestamp(NOW_MS + 25) == (NOW_MS + 100, 3, 0)
    assert box.log.offset_for_timestamp(NOW_MS + 3921) is None
    assert box.log.offset_of_max_timestamp() == (NOW_MS + 3920, 119, 0)
    box.log.advance_log_start(50)
    assert box.log.offset_for_timestamp(0) == (NOW_MS + 1620, 50, 0)
    box.append(batch(3, timestamp=NOW_MS + 9000, step_ms=-10))
    assert box.log.offset_of_max_timestamp() == (NOW_MS + 9000, 120, 0)


def test_offset_lookup_by_append_time(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    for n in range(5):
        box.append(batch(3, timestamp=5, append_time_ms=NOW_MS + n))
    assert box.log.offset_for_timestamp(NOW_MS + 2) == (NOW_MS + 2, 6, 0)
    assert box.log.offset_of_max_timestamp() == (NOW_MS + 4, 12, 0)


def test_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    assert box.log.offset_for_timestamp(0) is None
    assert box.log.offset_of_max_timestamp() is None


def test_log_truncation(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=1000, index_interval_bytes=100))
    for n in range(30):
        box.append(batch(2, timestamp=NOW_MS + n), epoch=n // 10)
    before = read_all(box.log)
    assert not box.log.truncate_to(60, NOW_MS)
    for end in (58, 57, 41, 40, 20, 13):
        assert box.log.truncate_to(end, NOW_MS)
        assert box.log.log_end_offset == end
        kept = [one for one in before if one.last_offset < end]
        assert [one.base_offset for one in read_all(box.log)] == [one.base_offset for one in kept]
        assert all(entry.start_offset < end for entry in box.log.epochs.entries)
    assert box.append(batch(2, timestamp=NOW_MS + 99), epoch=7)[:2] == (13, 14)
    assert box.log.offset_of_max_timestamp() == (NOW_MS + 99, 13, 7)
    expected = [(one.base_offset, one.crc) for one in read_all(box.log)]
    log = box.reopen_cleanly()
    assert [(one.base_offset, one.crc) for one in read_all(log)] == expected


def test_truncation_below_the_first_segment_restarts_the_log(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    data = bytearray(batch(5, base_offset=100, leader_epoch=1))
    box.log.truncate_fully_to(100, NOW_MS)
    box.log.append_as_follower(data, parse_batches(data), now_ms=NOW_MS)
    assert box.log.truncate_to(40, NOW_MS)
    assert (box.log.log_start_offset, box.log.log_end_offset) == (40, 40)
    assert box.log.epochs.entries == []
    assert box.append(batch(1))[:2] == (40, 40)


def open_files_below(directory: Path) -> int:
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{number}").startswith(str(directory))
    return count


def test_open_log_uses_no_descriptors(tmp_path: Path) -> None:
    boxes = [LogBox(tmp_path / str(n)) for n in range(20)]
    assert open_files_below(tmp_path) == 0
    for box in boxes:
        box.append(batch())
    assert open_files_below(tmp_path) >= 20
    for box in boxes:
        box.release_idle_files()
    # Files with unsynced data.
    assert open_files_below(tmp_path) == 20
    for box in boxes:
        box.log.flush()
        box.release_idle_files()
    assert open_files_below(tmp_path) == 0
    assert all(len(read_all(box.log)) == 1 for box in boxes)
