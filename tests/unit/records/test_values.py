"""Values-only batches: same bytes as the general builder, same results as the general decoder, also for invalid
input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.records.batch import BatchHeader, parse_batches
from odradek.records.builder import build_batch
from odradek.records.decode import decode_batch
from odradek.records.record import InvalidRecords, Record
from odradek.records.values import build_values_batch, read_values

values = st.lists(st.binary(max_size=300), max_size=200)
records = st.lists(
    st.builds(
        Record,
        st.one_of(st.none(), st.binary(max_size=3)),
        st.one_of(st.none(), st.binary(max_size=200)),
        st.integers(0, 2**40),
        st.lists(st.tuples(st.text(max_size=2), st.one_of(st.none(), st.binary(max_size=2))), max_size=2).map(tuple),
    ),
    max_size=150,
)


def header_of(batch: bytes) -> BatchHeader:
    (header,) = parse_batches(batch)
    return header


@given(values)
def test_values_batch_matches_the_general_builder(some: list[bytes]) -> None:
    batch = build_values_batch(some, timestamp=77, base_offset=5, leader_epoch=3)
    assert batch == build_batch([Record(None, value, 77) for value in some], base_offset=5, leader_epoch=3)
    assert list(read_values(batch, header_of(batch))) == some


@given(records)
def test_values_of_records_of_any_shape(some: list[Record]) -> None:
    batch = build_batch(some)
    assert list(read_values(batch, header_of(batch))) == [record.value for record in some]


def test_many_long_values() -> None:
    some = [bytes(size) for size in (8190, 8191, 8192, 100_000)] + [b"x"] * 20_000
    batch = build_values_batch(some, timestamp=1, base_offset=0, leader_epoch=0)
    assert list(read_values(batch, header_of(batch))) == some


@given(st.binary(max_size=40), st.integers(0, 6))
def test_invalid_bytes_give_the_same_error_as_decode(payload: bytes, count: int) -> None:
    batch = bytearray(build_values_batch([], timestamp=1, base_offset=0, leader_epoch=0) + payload)
    header = header_of(bytes(batch[:61]))
    header.size += len(payload)
    header.record_count = count
    try:
        expected = [record.value for record in decode_batch(batch, header)]
    except InvalidRecords as refused:
        with pytest.raises(InvalidRecords, match=str(refused).partition("(")[0]):
            list(read_values(bytes(batch), header))
    else:
        assert list(read_values(bytes(batch), header)) == expected
