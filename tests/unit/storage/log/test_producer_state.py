from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.storage.log.producer_entry import ProducerEntry, SequencedBatch
from odradek.storage.log.producer_snapshots import CorruptSnapshot, decode_snapshot, encode_snapshot
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all

SEQUENCE_MAX = 2**31 - 1


def error_of(box: LogBox, *args: int, **fields: Any) -> ErrorCode:
    end = box.log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        box.produce(*args, **fields)
    assert box.log.log_end_offset == end
    return caught.value.code


def test_duplicates_get_the_original_offsets(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    for n in range(7):
        assert box.produce(1, n * 2, 2, timestamp=NOW_MS + n)[:3] == (n * 2, n * 2 + 1, False)
    for n in range(2, 7):
        again = box.produce(1, n * 2, 2)
        assert again[:4] == (n * 2, n * 2 + 1, True, NOW_MS + n)
    # Only five batches are kept; an older duplicate looks like a gap.
    assert error_of(box, 1, 2, 2) is ErrorCode.out_of_order_sequence_number
    # The same sequence with another length is not a duplicate.
    assert error_of(box, 1, 12, 1) is ErrorCode.out_of_order_sequence_number
    assert box.log.log_end_offset == 14


def test_sequence_gaps_are_rejected(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(1, 0, 3)
    assert error_of(box, 1, 4) is ErrorCode.out_of_order_sequence_number
    box.produce(1, 3)
    # An unknown producer may start with any sequence.
    box.produce(2, 77)
    box.produce(2, 78)


def test_sequences_wrap(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(1, SEQUENCE_MAX - 4, 3)
    assert box.produce(1, SEQUENCE_MAX - 1, 4)[:2] == (3, 6)
    assert box.produce(1, SEQUENCE_MAX - 1, 4)[:3] == (3, 6, True)
    assert box.produce(1, 2, 1)[:2] == (7, 7)
    box.produce(2, SEQUENCE_MAX, 1)
    assert box.produce(2, 0, 1)[:3] == (9, 9, False)
    assert box.produce(2, SEQUENCE_MAX, 1).duplicate
    assert error_of(box, 2, 0, 2) is ErrorCode.out_of_order_sequence_number


def test_producer_epochs(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(1, 0, epoch=3)
    assert error_of(box, 1, 1, epoch=2) is ErrorCode.invalid_producer_epoch
    # A new epoch starts at 0, and batches of the old epoch are not its duplicates.
    assert error_of(box, 1, 1, epoch=4) is ErrorCode.out_of_order_sequence_number
    assert box.produce(1, 0, epoch=4)[:3] == (1, 1, False)
    assert error_of(box, 1, 0, epoch=3) is ErrorCode.invalid_producer_epoch


def test_batches_of_one_append_are_checked_in_order(tmp_path: Path) -> None:
    box = LogBox(tmp_path)

    def numbered(*sequences: int) -> bytes:
        return b"".join(batch(1, producer_id=1, producer_epoch=0, base_sequence=one) for one in sequences)

    assert box.append(numbered(0, 1, 2))[:2] == (0, 2)
    with pytest.raises(KafkaError):
        box.append(numbered(3, 5))
    assert box.log.log_end_offset == 3
    assert box.append(numbered(3, 4))[:2] == (3, 4)


def test_producer_state_survives_kill_and_clean_shutdown(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=1000))
    for n in range(40):
        box.produce(n % 3, n // 3)
    for reopen in (box.reopen_after_kill, box.reopen_cleanly):
        log = reopen()
        assert {one.producer_id: one.last_sequence for one in log.producers.producers.values()} == {0: 13, 1: 12, 2: 12}
        assert box.produce(0, 13).duplicate
        assert error_of(box, 1, 14) is ErrorCode.out_of_order_sequence_number
    assert box.produce(1, 13)[:2] == (40, 40)


def test_producer_state_follows_truncation(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=600))
    for n in range(20):
        box.produce(1, n)
    box.log.truncate_to(7, NOW_MS)
    assert box.log.producers.producers[1].last_sequence == 6
    assert error_of(box, 1, 8) is ErrorCode.out_of_order_sequence_number
    assert box.produce(1, 7)[:2] == (7, 7)


def test_inactive_producers_expire(tmp_path: Path) -> None:
    box = LogBox(tmp_path, producer_id_expiration_ms=1000)
    box.produce(1, 0, timestamp=NOW_MS)
    box.produce(2, 0, timestamp=NOW_MS + 500)
    box.produce(3, 0, timestamp=NOW_MS, is_transactional=True)
    box.log.producers.expire(NOW_MS + 1000)
    assert set(box.log.producers.producers) == {2, 3}
    # Then any sequence may start, as for an unknown producer: never UNKNOWN_PRODUCER_ID.
    assert box.produce(1, 9)[:3] == (3, 3, False)
    log = box.reopen_cleanly(now_ms=NOW_MS + 1499)
    assert set(log.producers.producers) == {2, 1, 3} - {1} | {3} or set(log.producers.producers) == {2, 3}


def test_open_transactions_hold_the_last_stable_offset(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    log = box.log
    box.produce(1, 0, 2, is_transactional=True)
    box.append(batch(3))
    box.produce(2, 0, 2, is_transactional=True)
    assert log.first_unstable_offset == 0
    assert log.last_stable_offset(7) == 0
    box.end_transaction(1, commit=True)
    # Complete, but the marker at 7 is not committed until the high watermark passes it.
    assert log.last_stable_offset(7) == 0
    assert log.last_stable_offset(8) == 5
    box.end_transaction(2, commit=False)
    assert log.last_stable_offset(8) == 5
    assert log.last_stable_offset(9) == 9
    assert [tuple(one) for one in log.aborted_transactions(0, 9)] == [(2, 5, 8, 9)]
    assert log.aborted_transactions(0, 5) == []
    assert log.aborted_transactions(9, 20) == []
    assert box.files()["00000000000000000000.txnindex"].hex() == (
        "0000" + f"{2:016x}" + f"{5:016x}" + f"{8:016x}" + f"{9:016x}"
    )


def test_aborted_transaction_has_the_last_stable_offset(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(1, 0, is_transactional=True)
    box.produce(2, 0, is_transactional=True)
    box.produce(3, 0, is_transactional=True)
    box.end_transaction(1, commit=False)
    box.end_transaction(3, commit=False)
    box.end_transaction(2, commit=False)
    assert [tuple(one) for one in box.log.aborted_transactions(0, 6)] == [(1, 0, 3, 1), (3, 2, 4, 1), (2, 1, 5, 6)]
    assert [one.producer_id for one in box.log.aborted_transactions(2, 3)] == [1, 3, 2]


def test_transactions_across_segments_and_kills(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=700))
    for n in range(30):
        box.produce(1, n, is_transactional=True)
    box.produce(2, 0, is_transactional=True)
    box.end_transaction(1, commit=False)
    assert len(box.log.segments) > 3
    expected = box.log.aborted_transactions(0, 32)
    assert [tuple(one) for one in expected] == [(1, 0, 31, 30)]
    for reopen in (box.reopen_after_kill, box.reopen_cleanly, box.reopen_after_kill):
        log = reopen()
        assert log.aborted_transactions(0, 32) == expected
        assert log.aborted_transactions(10, 12) == expected
        assert log.last_stable_offset(32) == 30
        assert log.producers.has_ongoing_transaction(2, 0)
        assert not log.producers.has_ongoing_transaction(1, 0)
    box.log.truncate_to(31, NOW_MS)
    assert box.log.aborted_transactions(0, 31) == []
    assert box.log.first_unstable_offset == 0


def test_non_transactional_write_into_an_open_transaction_is_rejected(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(1, 0, is_transactional=True)
    assert error_of(box, 1, 1) is ErrorCode.invalid_txn_state


def test_old_markers_are_fenced(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(1, 0, epoch=5, is_transactional=True)

    def marker_error(**fields: int) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            box.end_transaction(1, commit=True, **fields)
        return caught.value.code

    assert marker_error(epoch=4) is ErrorCode.invalid_producer_epoch
    # Since transaction.version 2 a marker's epoch is greater than the data's.
    assert marker_error(epoch=5, version=2) is ErrorCode.invalid_producer_epoch
    box.end_transaction(1, commit=True, epoch=6, coordinator_epoch=3, version=2)
    # An identical retry after completion is harmless.
    box.end_transaction(1, commit=True, epoch=6, coordinator_epoch=3, version=2)
    assert marker_error(epoch=6, coordinator_epoch=2) is ErrorCode.transaction_coordinator_fenced
    # The next transaction runs under the marker's epoch, from sequence 0.
    box.produce(1, 0, epoch=6, is_transactional=True)
    assert box.log.first_unstable_offset == 3


def test_marker_at_the_last_epoch_is_accepted(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(1, 0, epoch=32767, is_transactional=True)
    box.end_transaction(1, commit=True, epoch=32767, version=2)
    assert box.log.last_stable_offset(2) == 2


def test_snapshot_bytes() -> None:
    entries = [
        ProducerEntry(7, 2, 4, 99, -1, [SequencedBatch(5, 10, 3, 99)]),
        ProducerEntry(8, 0, -1, -1, 4, []),
    ]
    data = encode_snapshot(entries)
    assert data[:2].hex() == "0001"
    assert len(data) == 2 + 4 + 4 + 2 * 46
    assert decode_snapshot(data, "x") == entries
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged), "x")
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:size], "x")


def test_corrupt_snapshots_are_skipped(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=600))
    for n in range(20):
        box.produce(1, n)
    box.log.close()
    for path in box.directory.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    log = box.open(had_clean_shutdown=True)
    assert log.producers.producers[1].last_sequence == 19
    assert box.produce(1, 19).duplicate
    assert len(read_all(log)) == 20
