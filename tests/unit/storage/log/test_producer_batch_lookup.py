"""Batches in flight when a broker stopped and resent after its restart: each is known, not only the last."""

from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.producer_batch_lookup import LOOKUP_BYTES_MAX
from tests.unit.storage.log.log_support import LogBox, config


def reopen(box: LogBox, how: str) -> PartitionLog:
    return box.reopen_cleanly() if how == "cleanly" else box.reopen_after_kill()


@pytest.mark.parametrize("how", ["cleanly", "after a kill"])
def test_batches_in_flight_are_known_after_a_restart(tmp_path: Path, how: str) -> None:
    box = LogBox(tmp_path)
    first = [box.produce(7, sequence, 2) for sequence in range(0, 12, 2)]
    box.produce(8, 0)
    reopen(box, how)
    again = [box.produce(7, sequence, 2) for sequence in range(2, 12, 2)]
    assert all(one.duplicate for one in again)
    assert [one.first_offset for one in again] == [one.first_offset for one in first[1:]]
    assert not box.produce(7, 12).duplicate


def test_batch_lookup_across_segments(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    for sequence in range(5):
        box.produce(7, sequence)
        box.log.roll(0)
    box.reopen_cleanly()
    assert all(box.produce(7, sequence).duplicate for sequence in range(5))


def test_unknown_earlier_batch_is_out_of_order(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    for sequence in (0, 1, 2):
        box.produce(7, sequence)
    box.reopen_cleanly()
    for sequence, count in ((0, 2), (9, 1)):
        with pytest.raises(KafkaError) as raised:
            box.produce(7, sequence, count)
        assert raised.value.code is ErrorCode.out_of_order_sequence_number


def test_batch_lookup_with_wrapped_sequences(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    for sequence in (2**31 - 2, 2**31 - 1, 0, 1):
        box.produce(7, sequence)
    box.reopen_cleanly()
    assert all(box.produce(7, sequence).duplicate for sequence in (2**31 - 2, 2**31 - 1, 0))


def test_batch_lookup_ignores_other_epochs(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    box.produce(7, 0)
    box.produce(7, 0, epoch=1)
    box.produce(7, 1, epoch=1)
    box.reopen_cleanly()
    assert box.produce(7, 0, epoch=1).first_offset == 1
    with pytest.raises(KafkaError) as raised:
        box.produce(7, 0, epoch=0)
    assert raised.value.code is ErrorCode.invalid_producer_epoch


def test_batch_lookup_reads_the_log_once_per_producer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = LogBox(tmp_path, config=config(index_interval_bytes=0))
    for sequence in range(3):
        box.produce(7, sequence)
    box.reopen_cleanly()
    with pytest.raises(KafkaError):
        box.produce(7, 0, 2)
    monkeypatch.setattr("odradek.storage.log.partition_log.restore_batches", None)
    assert box.produce(7, 1).duplicate
    with pytest.raises(KafkaError):
        box.produce(7, 0, 2)


def test_batch_lookup_reads_only_the_end_of_the_log(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(index_interval_bytes=0, max_message_bytes=LOOKUP_BYTES_MAX * 2))
    box.produce(7, 0)
    box.produce(8, 0, size=LOOKUP_BYTES_MAX)
    box.produce(7, 1)
    box.produce(7, 2)
    box.reopen_cleanly()
    assert box.produce(7, 1).duplicate
    with pytest.raises(KafkaError):
        box.produce(7, 0)
