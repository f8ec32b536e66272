"""What a compaction pass retains of a log."""

from pathlib import Path

import pytest

from odradek.base.errors import KafkaError
from odradek.records.batch import CorruptBatch
from odradek.records.compression import Compression
from odradek.records.walk import INTERPRETED_WALK, Walk, compiled_walk
from odradek.storage.log.transaction_index import AbortedTransaction
from tests.unit.storage.log.compaction_support import (
    CompactedBox,
    all_records,
    batch_ranges,
    committed_records,
    last_values,
    offsets_of,
)
from tests.unit.storage.log.log_support import NOW_MS, read_all


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.needs("numba"))])
def walk(request: pytest.FixtureRequest) -> Walk:
    if request.param == "interpreted":
        return INTERPRETED_WALK
    walk = compiled_walk()
    assert walk is not None
    return walk


@pytest.fixture
def box(tmp_path: Path) -> CompactedBox:
    return CompactedBox(tmp_path)


class TestKeys:
    @pytest.mark.parametrize("codec", list(Compression))
    def test_last_record_of_each_key_keeps_its_offset(self, box: CompactedBox, walk: Walk, codec: Compression) -> None:
        box.write((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), compression=codec)
        box.write((b"a", b"2"), (b"c", b"2"), compression=codec)
        box.roll()
        box.write((b"b", b"2"), (b"a", b"3"), compression=codec)
        box.roll()
        before = last_values(all_records(box.log))
        cleaning = box.compact(walk=walk)
        assert offsets_of(box.log) == [4, 5, 6]
        assert last_values(all_records(box.log)) == before
        assert cleaning.end_offset == 7
        assert (cleaning.stats.records_read, cleaning.stats.records_written) == (7, 3)

    def test_active_segment_is_not_compacted(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"))
        box.roll()
        box.write((b"a", b"2"), (b"a", b"3"))
        box.compact(walk=walk)
        # The last batch before the end of the pass is retained, if only as an empty batch; this one is the last of its
        # key.
        assert offsets_of(box.log) == [0, 1, 2]

    def test_empty_batch_retains_the_last_offset(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"))
        box.write((None, b"no key"), (None, b"none either"))
        box.roll()
        box.write((b"z", b"1"))
        box.compact(walk=walk)
        assert batch_ranges(box.log) == [(0, 0, 1), (1, 2, 0), (3, 3, 1)]

    def test_records_above_a_full_map_are_retained(self, box: CompactedBox, walk: Walk) -> None:
        for round in range(3):
            box.write(*[(b"k%d" % key, b"%d" % round) for key in range(60)])
            box.roll()
        before = last_values(all_records(box.log))
        offset = None
        passes = 0
        memory_bytes = 1200 if walk.is_compiled else 6000
        while offset is None or offset < 180:
            offset = box.compact(walk=walk, clean_offset=offset, memory_bytes=memory_bytes).end_offset
            assert last_values(all_records(box.log)) == before
            passes += 1
            assert passes < 50
        assert passes > 1
        assert offsets_of(box.log) == list(range(120, 180))

    def test_fully_retained_batch_keeps_its_bytes(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"), (b"b", b"1"), compression=Compression.LZ4)
        box.roll()
        before = box.log.read(0, 1000, end_offset_exclusive=2).data
        box.compact(walk=walk)
        assert box.log.read(0, 1000, end_offset_exclusive=2).data == before


class TestTombstones:
    def test_tombstones_are_retained_for_delete_retention_ms(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"), (b"b", b"1"))
        box.write((b"a", None))
        box.roll()
        box.compact(walk=walk)
        (_, tombstone) = read_all(box.log)
        assert tombstone.delete_horizon_ms == NOW_MS + 1000
        assert [(one.key, one.value, one.timestamp) for one in all_records(box.log)] == [
            (b"b", b"1", NOW_MS),
            (b"a", None, NOW_MS),
        ]
        box.write((b"c", b"1"))
        box.roll()
        box.compact(walk=walk, now_ms=NOW_MS + 999)
        assert offsets_of(box.log) == [1, 2, 3]
        box.compact(walk=walk, now_ms=NOW_MS + 1000)
        assert offsets_of(box.log) == [1, 3]

    def test_timestamps_survive_the_delete_horizon(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", None), (b"b", b"x"), timestamp=5)
        box.write((b"c", None), timestamp=-1)
        box.roll()
        box.compact(walk=walk)
        assert [one.timestamp for one in all_records(box.log)] == [5, 5, -1]
        assert [header.max_timestamp for header in read_all(box.log)] == [5, -1]

    def test_newer_value_removes_a_tombstone_immediately(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", None))
        box.write((b"a", b"1"))
        box.roll()
        box.compact(walk=walk)
        assert offsets_of(box.log) == [1]

    def test_delete_horizon_does_not_change(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", None), (b"b", b"1"), (b"c", b"1"))
        box.roll()
        box.compact(walk=walk)
        box.write((b"b", b"2"))
        box.roll()
        box.compact(walk=walk, now_ms=NOW_MS + 500)
        header = read_all(box.log)[0]
        assert (header.delete_horizon_ms, header.record_count) == (NOW_MS + 1000, 2)
        assert [one.timestamp for one in all_records(box.log)] == [NOW_MS] * 3


class TestProducers:
    def test_last_sequence_of_an_active_producer_is_retained(self, box: CompactedBox, walk: Walk) -> None:
        for sequence in range(4):
            box.write((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=sequence)
        box.write((b"a", b"other"))
        box.roll()
        box.write((b"z", b""))
        box.compact(walk=walk)
        assert batch_ranges(box.log) == [(3, 3, 0), (4, 4, 1), (5, 5, 1)]
        for name in box.files():
            if name.endswith(".snapshot"):
                (box.directory / name).unlink()
        box.reopen_after_kill()
        assert box.log.producers.producers[7].last_sequence == 3
        with pytest.raises(KafkaError):
            box.write((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=5)
        box.write((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=4)

    def test_empty_batches_of_expired_producers_are_removed(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
        box.write((b"a", b"2"))
        box.roll()
        box.compact(walk=walk)
        assert len(read_all(box.log)) == 2
        box.log.producers.clear()
        box.compact(walk=walk)
        assert len(read_all(box.log)) == 1


class TestTransactions:
    def write(self, box: CompactedBox, producer_id: int, sequence: int, key: bytes, value: bytes) -> None:
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
        box.write((key, value), **fields)

    def test_aborted_records_are_removed_and_hide_nothing(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"good"))
        self.write(box, 5, 0, b"a", b"aborted")
        box.end_transaction(5, commit=False)
        box.roll()
        before = last_values(committed_records(box.log))
        box.compact(walk=walk)
        assert last_values(committed_records(box.log)) == before == last_values(all_records(box.log))

    def test_abort_marker_is_retained_with_its_data(self, box: CompactedBox, walk: Walk) -> None:
        self.write(box, 5, 0, b"a", b"aborted")
        box.end_transaction(5, commit=False)
        box.roll()
        box.write((b"z", b""))
        # The batch is the producer's last: an empty batch is retained, and so are marker and index entry.
        box.compact(walk=walk)
        assert box.log.aborted_transactions(0, 2) == [AbortedTransaction(5, 0, 1, 2)]
        assert batch_ranges(box.log) == [(0, 0, 0), (1, 1, 1), (2, 2, 1)]

    def test_markers_without_data_are_removed_after_delete_retention_ms(self, box: CompactedBox, walk: Walk) -> None:
        self.write(box, 5, 0, b"a", b"1")
        box.end_transaction(5, commit=True)
        self.write(box, 6, 0, b"b", b"1")
        box.end_transaction(6, commit=False)
        box.write((b"a", b"2"))
        box.roll()
        box.log.producers.clear()
        box.compact(walk=walk)
        # The pass that removes the data still needs the commit and abort markers.
        assert [header.base_offset for header in read_all(box.log)] == [1, 3, 4]
        assert all(not header.has_delete_horizon for header in read_all(box.log))
        box.compact(walk=walk)
        assert [header.delete_horizon_ms for header in read_all(box.log)][:2] == [NOW_MS + 1000] * 2
        assert box.log.aborted_transactions(0, 5) == []
        box.compact(walk=walk, now_ms=NOW_MS + 999)
        assert len(read_all(box.log)) == 3
        box.compact(walk=walk, now_ms=NOW_MS + 1000)
        assert [header.base_offset for header in read_all(box.log)] == [4]

    def test_last_marker_of_a_producer_is_retained_for_its_epoch(self, box: CompactedBox, walk: Walk) -> None:
        self.write(box, 5, 0, b"a", b"1")
        box.end_transaction(5, commit=True, epoch=1)
        box.write((b"a", b"2"))
        box.roll()
        for now_ms in (NOW_MS, NOW_MS, NOW_MS + 2000):
            box.compact(walk=walk, now_ms=now_ms)
        # Its record is removed, the batch is retained to fence the older epoch.
        marker = read_all(box.log)[0]
        assert (marker.base_offset, marker.is_control, marker.record_count, marker.producer_epoch) == (1, True, 0, 1)
        box.compact(walk=walk, now_ms=NOW_MS + 2000)
        assert read_all(box.log)[0].base_offset == 1

    def test_pass_stops_at_an_open_transaction(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"))
        box.write((b"a", b"2"))
        box.roll()
        box.write((b"a", b"3"))
        self.write(box, 5, 0, b"a", b"open")
        box.roll()
        cleaning = box.compact(walk=walk)
        assert cleaning.end_offset == 2
        assert offsets_of(box.log) == [1, 2, 3]

    def test_compaction_of_a_transaction_across_segments(self, box: CompactedBox, walk: Walk) -> None:
        box.log.config = box.log.config.__class__.resolve({"cleanup.policy": "compact", "segment.bytes": "1048576"})
        self.write(box, 5, 0, b"a", b"aborted")
        box.write((b"a", b"good"))
        box.roll()
        self.write(box, 5, 1, b"a", b"aborted too")
        box.roll()
        box.end_transaction(5, commit=False)
        box.write((b"b", b"1"))
        box.roll()
        before = last_values(committed_records(box.log))
        box.compact(walk=walk)
        assert last_values(committed_records(box.log)) == before
        assert last_values(all_records(box.log)) == before


class TestSegments:
    def test_small_adjacent_segments_are_joined(self, box: CompactedBox, walk: Walk) -> None:
        for number in range(6):
            box.write((b"k%d" % number, b"x" * 100))
            box.roll()
        box.compact(walk=walk)
        assert [segment.base_offset for segment in box.log.segments] == [0, 6]
        assert offsets_of(box.log) == list(range(6))

    def test_joined_segments_stay_within_segment_bytes(self, tmp_path: Path, walk: Walk) -> None:
        box = CompactedBox(tmp_path, segment_bytes=500)
        for number in range(6):
            box.write((b"k%d" % number, b"x" * 100))
            box.roll()
        box.compact(walk=walk)
        assert [segment.base_offset for segment in box.log.segments] == [0, 2, 4, 6]
        assert all(segment.size <= 500 for segment in box.log.segments)

    def test_indexes_find_the_retained_records(self, box: CompactedBox, walk: Walk) -> None:
        for number in range(200):
            box.write((b"k%d" % (number % 50), b"x" * 50), timestamp=NOW_MS + number)
        box.roll()
        box.compact(walk=walk)
        segment = box.log.segments[0]
        segment.offset_index.load()
        assert segment.offset_index.entries > 5
        for offset in range(150, 200):
            assert read_all(box.log, start=offset)[0].base_offset == offset
            found = box.log.offset_for_timestamp(NOW_MS + offset)
            assert found is not None and found.offset == offset
        assert read_all(box.log, start=3)[0].base_offset == 150

    def test_segment_may_become_empty(self, tmp_path: Path, walk: Walk) -> None:
        box = CompactedBox(tmp_path, segment_bytes=300)
        box.write((b"a", b"x" * 180))
        box.roll()
        box.write((b"a", b"y" * 180))
        box.roll()
        box.compact(walk=walk)
        assert [(segment.base_offset, segment.size > 0) for segment in box.log.segments] == [
            (0, False),
            (1, True),
            (2, False),
        ]
        assert offsets_of(box.log) == [1]
        box.reopen_after_kill()
        assert offsets_of(box.log) == [1]

    def test_old_files_are_deleted_later(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"))
        box.write((b"a", b"2"))
        box.roll()
        box.compact(walk=walk)
        assert any(name.endswith(".deleted") for name in box.files())
        box.log.remove_deleted(NOW_MS + 60_000)
        assert not any(name.endswith((".deleted", ".cleaned", ".swap")) for name in box.files())

    def test_replacement_is_dropped_if_the_log_changed(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"))
        box.write((b"a", b"2"))
        box.roll()
        box.write((b"a", b"3"))
        (finished,) = [step.finished for step in box.new_pass(walk=walk).steps() if step.finished is not None]
        assert not box.replacer.log_has_changed()
        box.log.truncate_to(1, NOW_MS)
        assert box.replacer.log_has_changed()
        assert not box.replacer.replace(finished)
        assert offsets_of(box.log) == [0]
        assert not any(name.endswith(".cleaned") for name in box.files())

    def test_abandoned_pass_leaves_no_files(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"))
        box.roll()
        steps = box.new_pass(walk=walk).steps()
        next(steps)
        next(steps)
        assert any(name.endswith(".cleaned") for name in box.files())
        steps.close()
        assert not any(name.endswith(".cleaned") for name in box.files())

    def test_corrupt_batches_do_not_get_a_new_crc(self, box: CompactedBox, walk: Walk) -> None:
        box.write((b"a", b"1"))
        box.write((b"a", b"2"))
        box.roll()
        box.damage_first_batch()
        with pytest.raises(CorruptBatch):
            box.compact(walk=walk)
        assert len(box.log.segments) == 2
