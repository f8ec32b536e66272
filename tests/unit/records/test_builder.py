"""Batches of records that are written one by one equal batches that are built at once."""

import pytest

from odradek.records.builder import build_batch, frame_records, write_record
from odradek.records.compression import Compression
from odradek.records.record import Record


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("count", [1, 70, 9_000])
def test_framed_records_equal_a_built_batch(count: int, compression: Compression) -> None:
    records = [
        Record(b"k%d" % number, None if number % 7 == 0 else b"v" * (number % 100), 5) for number in range(count)
    ]
    payload = bytearray()
    for offset_delta, record in enumerate(records):
        write_record(payload, record, offset_delta, 0)
    assert frame_records(payload, count, 5, compression=compression) == build_batch(records, compression=compression)
