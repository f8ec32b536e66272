"""Columns become the records that the builder makes of the same rows, in the partitions that Java clients choose."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from odradek.client.partitioner import partition_of_key
from odradek.pipelines.arrow.writing import NO_PARTITION, encode_records, parts_of
from odradek.records.builder import write_record
from odradek.records.record import Record

pytestmark = pytest.mark.needs("numpy")

PARTITIONS = 5
UNKEYED = 3


def some(chance: Random, length_max: int) -> bytes | None:
    return None if chance.random() < 0.2 else chance.randbytes(chance.randrange(length_max))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_encoded_rows_equal_the_batch_builder(kind: pa.DataType) -> None:
    chance = Random(5)
    rows = [(some(chance, 40), some(chance, 300), chance.choice([NO_PARTITION, NO_PARTITION, 4])) for _ in range(700)]
    # Times go back and forth.
    times = np.array([chance.choice([1, 1_000_000_000_000]) + chance.randrange(5_000) for _ in rows], np.int64)
    # A slice, as Arrow may hand out.
    whole = pa.record_batch(
        {
            "key": pa.array([b"before"] * 3 + [key for key, _, _ in rows], kind),
            "value": pa.array([b"before"] * 3 + [value for _, value, _ in rows], kind),
        }
    )
    batch = whole.slice(3)
    keys, values = (parts_of(batch.column(name), batch.num_rows) for name in ("key", "value"))
    partitions = np.array([partition for _, _, partition in rows], np.int64)
    expected: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for (key, value, partition), time in zip(rows, times.tolist(), strict=True):
        if partition < 0:
            partition = UNKEYED if key is None else partition_of_key(key, PARTITIONS)
        expected[partition].append(Record(key, value, time))

    sizes = []
    for one in encode_records(keys, values, times, partitions, PARTITIONS, UNKEYED, bytes_max=2_000):
        made = bytearray()
        taken, expected[one.partition] = (
            expected[one.partition][: one.record_count],
            expected[one.partition][one.record_count :],
        )
        for delta, record in enumerate(taken):
            write_record(made, record, delta, record.timestamp - one.base_timestamp)
        assert bytes(one.payload) == bytes(made)
        assert one.base_timestamp == taken[0].timestamp
        assert one.max_timestamp == max(record.timestamp for record in taken)
        sizes.append(len(one.payload))
    assert not any(expected)
    assert len(sizes) > 20 and max(sizes) < 2_400


def test_an_oversized_record_has_its_own_batch() -> None:
    values = parts_of(pa.array(["x" * 5_000, "y", "z" * 5_000]), 3)
    nothing = parts_of(None, 3)
    times, partitions = np.zeros(3, np.int64), np.full(3, NO_PARTITION, np.int64)
    found = encode_records(nothing, values, times, partitions, 2, 1, bytes_max=100)
    assert [(one.partition, one.record_count) for one in found] == [(1, 1), (1, 2)]
