import pytest

from odradek.node.replica_fetcher import checked_batches
from odradek.records.batch import CorruptBatch
from odradek.records.builder import build_batch
from odradek.records.record import Record


def batch(base_offset: int) -> bytes:
    return build_batch([Record(None, b"value", 1)], base_offset=base_offset)


def test_an_answer_that_ends_within_a_batch_is_taken_up_to_it() -> None:
    whole = batch(0) + batch(1)
    for missing in range(len(batch(2))):
        records, batches = checked_batches(whole + batch(2)[:missing])
        assert records == whole
        assert [one.base_offset for one in batches] == [0, 1]
    assert checked_batches(b"") == (b"", [])


def test_a_damaged_batch_is_not_taken() -> None:
    damaged = bytearray(batch(0) + batch(1))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        checked_batches(bytes(damaged))
