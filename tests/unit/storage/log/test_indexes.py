import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.host.disk import HostDisk
from odradek.storage.log.index_file import CorruptIndex, WouldWait
from odradek.storage.log.offset_index import OffsetIndex
from odradek.storage.log.time_index import TimeIndex
from odradek.storage.log.transaction_index import AbortedTransaction, TransactionIndex

BASE = 1000


def offset_index(path: Path, entries: list[tuple[int, int]], max_bytes: int = 80_000) -> OffsetIndex:
    index = OffsetIndex(HostDisk(), str(path), BASE, max_bytes)
    index.create()
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_offset_index_lookup_matches_a_list(tmp_path: Path) -> None:
    """Enough entries for several blocks."""
    choose = random.Random(1)
    entries, offset, position = [], BASE, 0
    for _ in range(5000):
        offset += choose.randint(1, 5)
        position += choose.randint(1, 900)
        entries.append((offset, position))
    index = offset_index(tmp_path / "i", entries)
    index.trim()
    reopened = OffsetIndex(HostDisk(), str(tmp_path / "i"), BASE, 80_000)
    with pytest.raises(WouldWait):
        reopened.lookup(BASE, cached=True)
    for cached in (False, True):
        for _ in range(300):
            target = choose.randint(BASE, offset + 10)
            expected = max((one for one in entries if one[0] <= target), default=(BASE, 0))
            assert reopened.lookup(target, cached=cached) == expected
            target = choose.randint(0, position + 10)
            expected = max((one for one in entries if one[1] <= target), default=(BASE, 0))
            assert reopened.lookup_position(target, cached=cached) == expected


def test_offset_index_has_kafkas_format(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", [(1003, 0x100), (1007, 0x20304050)], max_bytes=50)
    assert (tmp_path / "i").stat().st_size == 48
    index.trim()
    assert (tmp_path / "i").read_bytes().hex() == "00000003000001000000000720304050"
    index.reserve()
    assert (tmp_path / "i").stat().st_size == 48
    assert index.entries == 2
    assert index.max_entries == 6


def test_full_indexes(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", [(BASE + n, n) for n in range(3)], max_bytes=24)
    assert index.is_full
    times = TimeIndex(HostDisk(), str(tmp_path / "t"), BASE, 36)
    times.create()
    assert not times.is_full
    times.append_if_later(1, BASE)
    times.append_if_later(2, BASE)
    # One slot is reserved for the entry that closing the segment adds.
    assert times.is_full


@pytest.mark.parametrize(
    "truncate_at, left", [(BASE, 0), (1003, 0), (1004, 1), (1007, 1), (1008, 2), (1050, 3), (9999, 3)]
)
def test_offset_index_truncation(tmp_path: Path, truncate_at: int, left: int) -> None:
    entries = [(1003, 10), (1007, 20), (1020, 30)]
    index = offset_index(tmp_path / "i", entries)
    index.truncate_to(truncate_at)
    assert index.entries == left
    assert (index.last_offset, index.last_position) == (entries[left - 1] if left else (BASE, 0))


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60),
    targets=st.lists(st.integers(-2, 200), max_size=10),
    truncate_at=st.integers(BASE - 1, BASE + 200),
)
def test_time_index_keeps_only_increasing_timestamps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], targets: list[int], truncate_at: int
) -> None:
    path = str(tmp_path_factory.mktemp("t") / "t")
    index = TimeIndex(HostDisk(), path, BASE, 12 * 100)
    index.create()
    kept: list[tuple[int, int]] = []
    timestamp, offset = 0, BASE
    for later, further in steps:
        timestamp, offset = timestamp + later, offset + further
        if not kept or timestamp > kept[-1][0]:
            kept.append((timestamp, offset))
        index.append_if_later(timestamp, offset)
    for target in targets:
        assert index.lookup(target) == max((one for one in kept if one[0] <= target), default=(-1, BASE))
    index.truncate_to(truncate_at)
    kept = [one for one in kept if one[1] < truncate_at]
    assert index.entries == len(kept)
    index.trim()
    reopened = TimeIndex(HostDisk(), path, BASE, 12 * 100)
    reopened.load()
    assert (reopened.last_timestamp, reopened.last_offset) == (kept[-1] if kept else (-1, BASE))


def test_transaction_index(tmp_path: Path) -> None:
    path = tmp_path / "x"
    index = TransactionIndex(HostDisk(), str(path), 0)
    assert index.entries() == []
    index.sync()
    assert not path.exists()
    entries = [AbortedTransaction(n, n * 10, n * 10 + 5, n * 10 + 6) for n in range(5)]
    for entry in entries:
        index.append(entry)
    assert TransactionIndex(HostDisk(), str(path), 0).entries() == entries
    # The search ends with the first entry whose last stable offset reaches the end.
    assert index.collect(12, 26) == (entries[1:3], True)
    assert index.collect(0, 1000) == (entries, False)
    assert index.collect(16, 20) == ([], True)
    index.truncate_to(25)
    assert index.entries() == entries[:2]
    index.write_ahead(0, entries[2])
    index.trim()
    assert path.stat().st_size == 2 * 34
    index.reset()
    assert path.stat().st_size == 0


def test_transaction_index_of_another_segment_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    TransactionIndex(HostDisk(), str(path), 0).append(AbortedTransaction(1, 2, 3, 4))
    with pytest.raises(CorruptIndex):
        TransactionIndex(HostDisk(), str(path), 10).check()
    path.write_bytes(b"\x00\x07" + path.read_bytes()[2:])
    with pytest.raises(CorruptIndex):
        TransactionIndex(HostDisk(), str(path), 0).check()
    # A partial entry is ignored.
    path.write_bytes(path.read_bytes()[:-1])
    assert TransactionIndex(HostDisk(), str(path), 0).entries() == []
