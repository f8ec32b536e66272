"""Readers find the same values before and after compaction, also if it was interrupted at any point."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.host.disk import HostDisk
from odradek.records.compression import Compression
from odradek.records.record import Record
from odradek.records.walk import INTERPRETED_WALK, Walk, compiled_walk
from tests.unit.storage.log.compaction_support import CompactedBox, all_records, committed_records, last_values
from tests.unit.storage.log.log_support import NOW_MS, read_all

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"long" * 20])
VALUES = st.none() | st.binary(max_size=6)
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), PAIRS, st.sampled_from(Compression)),
        st.tuples(st.just("idempotent"), st.integers(1, 2), PAIRS),
        st.tuples(st.just("transactional"), st.integers(11, 13), PAIRS),
        st.tuples(st.just("commit"), st.integers(11, 13)),
        st.tuples(st.just("abort"), st.integers(11, 13)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("compact"), st.sampled_from([0, 500, 1500])),
    ),
    max_size=30,
)


class Writer:
    """Executes actions on a box, and keeps the state of its producers."""

    def __init__(self, box: CompactedBox) -> None:
        self.box = box
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.now_ms = NOW_MS
        self.clean_offset: int | None = None

    def act(self, action: tuple[Any, ...], walk: Walk) -> None:
        kind = action[0]
        if kind == "plain":
            self.box.write(*action[1], compression=action[2], timestamp=self.now_ms)
        elif kind == "idempotent":
            self._produce(action[1], action[2], is_transactional=False)
        elif kind == "transactional":
            self.open.add(action[1])
            self._produce(action[1], action[2], is_transactional=True)
        elif kind in ("commit", "abort"):
            if action[1] in self.open:
                self.open.discard(action[1])
                self.box.end_transaction(action[1], commit=kind == "commit")
        elif kind == "roll":
            self.box.roll()
        else:
            self.now_ms += action[1]
            self.compact(walk)

    def _produce(self, producer_id: int, pairs: list[tuple[bytes, bytes | None]], *, is_transactional: bool) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.box.write(
            *pairs,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
            timestamp=self.now_ms,
        )
        self.sequences[producer_id] = sequence + len(pairs)

    def compact(self, walk: Walk) -> None:
        self.clean_offset = self.box.compact(walk=walk, now_ms=self.now_ms, clean_offset=self.clean_offset).end_offset


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for each example."""
    directory = tempfile.mkdtemp()
    try:
        yield Path(directory)
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module", params=["interpreted", pytest.param("compiled", marks=pytest.mark.needs("numba"))])
def walk(request: pytest.FixtureRequest) -> Walk:
    if request.param == "interpreted":
        return INTERPRETED_WALK
    walk = compiled_walk()
    assert walk is not None
    return walk


def producers_of(box: CompactedBox) -> dict[int, tuple[int, int]]:
    return {one.producer_id: (one.epoch, one.last_sequence) for one in box.log.producers.producers.values()}


@given(ACTIONS)
@settings(deadline=None, max_examples=60)
def test_compaction_preserves_the_latest_value_of_each_key(walk: Walk, actions: list[tuple[Any, ...]]) -> None:
    with scratch() as directory:
        box = CompactedBox(directory)
        writer = Writer(box)
        written: dict[int, Record] = {}
        for action in actions:
            if action[0] == "compact":
                written |= {record.offset: record for record in all_records(box.log)}
            writer.act(action, walk)
        box.roll()
        written |= {record.offset: record for record in all_records(box.log)}
        committed, producers = last_values(committed_records(box.log)), producers_of(box)
        end_offset = box.log.log_end_offset
        tail_from = box.measure(clean_offset=writer.clean_offset).first_uncleanable_offset
        tail = [record for record in all_records(box.log) if record.offset >= tail_from]
        writer.compact(walk)
        check_same(box, committed, written)
        assert [record for record in all_records(box.log) if record.offset >= tail_from] == tail
        # Once more from the files alone, without producer snapshots.
        for name in box.files():
            if name.endswith(".snapshot"):
                (box.directory / name).unlink()
        box.reopen_after_kill()
        assert box.log.log_end_offset == end_offset
        check_same(box, committed, written)
        assert producers_of(box) == producers
        for producer_id in producers:
            if producer_id in writer.sequences and producer_id not in writer.open:
                writer._produce(producer_id, [(b"a", b"next")], is_transactional=False)


def check_same(box: CompactedBox, committed: dict[bytes, Record], written: dict[int, Record]) -> None:
    assert last_values(committed_records(box.log)) == committed
    for record in all_records(box.log):
        assert record == written[record.offset]
    headers = read_all(box.log)
    assert all(first.last_offset < second.base_offset for first, second in pairwise(headers))


class PowerCut(BaseException):
    pass


class DyingDisk(HostDisk):
    """Simulates a crash before the given directory change."""

    def __init__(self) -> None:
        super().__init__()
        self.changes_left = -1

    def _change(self) -> None:
        if self.changes_left == 0:
            raise PowerCut
        self.changes_left -= 1

    def open(self, path: str, **options: Any) -> Any:
        if not self.exists(path):
            self._change()
        return super().open(path, **options)

    def rename(self, source: str, target: str, **options: Any) -> None:
        self._change()
        super().rename(source, target, **options)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self._change()
        super().sync_dir(path)


def test_crash_at_any_directory_change_during_compaction(tmp_path: Path) -> None:
    survived = 0
    for crash_at in range(500):
        disk = DyingDisk()
        box = CompactedBox(tmp_path / str(crash_at), disk, segment_bytes=400)
        writer = Writer(box)
        for number in range(5):
            writer.act(("plain", [(b"a", b"%d" % number), (b"b%d" % number, None)], Compression.NONE), INTERPRETED_WALK)
            if number % 3 == 0:
                writer.act(("transactional", 11, [(b"t", b"%d" % number)]), INTERPRETED_WALK)
                writer.act(("abort" if number % 2 else "commit", 11), INTERPRETED_WALK)
            writer.act(("roll",), INTERPRETED_WALK)
        box.log.flush()
        written = {record.offset: record for record in all_records(box.log)}
        committed, end_offset = last_values(committed_records(box.log)), box.log.log_end_offset
        disk.changes_left = crash_at
        try:
            writer.compact(INTERPRETED_WALK)
            survived += 1
        except PowerCut:
            pass
        box.disk = HostDisk()
        for had_clean_shutdown in (False, True):
            box.reopen_after_kill(recovery_point=end_offset, had_clean_shutdown=had_clean_shutdown)
            assert box.log.log_end_offset == end_offset
            check_same(box, committed, written)
            assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in box.files())
        writer.compact(INTERPRETED_WALK)
        check_same(box, committed, written)
        if survived:
            break
    assert survived, "the pass has more steps than were tried"
    assert crash_at > 20
