"""Batch headers: parsing, rejecting, patching."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode
from odradek.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    check_crc,
    pack_header,
    parse_batches,
    parse_header,
    patch_append_time,
    patch_offset_and_epoch,
)
from odradek.records.builder import build_batch, build_empty_batch
from odradek.records.compression import Compression
from odradek.records.decode import decode_batch
from odradek.records.record import InvalidRecords, Record


def sample(count: int = 3, **settings: int) -> bytes:
    return build_batch([Record(b"k%d" % i, b"v" * i, 1000 + i) for i in range(count)], **settings)  # type: ignore[arg-type]


class TestParsing:
    def test_header_fields_match_kafka(self) -> None:
        data = bytes.fromhex(
            "0000000000000007" "00000031" "00000005" "02" "01020304" "0072" "00000009"
            "0000000000000064" "00000000000000c8" "0000000000000b0b" "0003" "00000011" "00000000"
        )  # fmt: skip
        header = parse_header(data)
        assert (header.base_offset, header.size, header.leader_epoch, header.magic, header.crc) == (
            7,
            HEADER_SIZE,
            5,
            2,
            0x01020304,
        )
        assert (header.last_offset, header.next_offset, header.base_timestamp, header.max_timestamp) == (
            16,
            17,
            100,
            200,
        )
        assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (
            2827,
            3,
            17,
            0,
        )
        assert (header.compression, header.timestamp_type_is_append, header.is_transactional) == (2, False, True)
        assert (header.is_control, header.has_delete_horizon, header.delete_horizon_ms) == (True, True, 100)
        assert header.last_sequence == 26
        assert pack_header(header) == data

    def test_positions_of_consecutive_batches(self) -> None:
        data = sample(1) + sample(5) + sample(2)
        headers = parse_batches(data)
        assert [header.record_count for header in headers] == [1, 5, 2]
        assert [header.position for header in headers] == [0, headers[0].size, headers[0].size + headers[1].size]
        for header in headers:
            check_crc(data, header)
        assert parse_batches(b"") == []

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_any_buffer_type_is_parsed(self, kind: type) -> None:
        assert len(parse_batches(kind(sample()))) == 1

    def test_partial_batches_are_rejected_or_ignored(self) -> None:
        whole, torn = sample(2), sample(3)
        for size in range(1, len(torn)):
            data = whole + torn[:size]
            with pytest.raises(CorruptBatch):
                parse_batches(data)
            (header,) = parse_batches(data, allow_partial_tail=True)
            assert header.size == len(whole)

    @pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
    def test_lengths_below_a_header_are_rejected(self, length: int) -> None:
        data = bytearray(sample())
        data[8:12] = length.to_bytes(4, "big", signed=True)
        for allow in (True, False):
            with pytest.raises(CorruptBatch) as refusal:
                parse_batches(data, allow_partial_tail=allow)
            assert refusal.value.code is ErrorCode.corrupt_message

    def test_a_length_beyond_the_buffer_is_a_partial_batch(self) -> None:
        data = bytearray(sample())
        data[8:12] = (2**31 - 1).to_bytes(4, "big")
        with pytest.raises(CorruptBatch):
            parse_batches(data)
        assert parse_batches(data, allow_partial_tail=True) == []

    @pytest.mark.parametrize(("magic", "error"), [(0, UnsupportedMagic), (1, UnsupportedMagic), (3, CorruptBatch)])
    def test_other_magic_values_are_rejected(self, magic: int, error: type[Exception]) -> None:
        data = bytearray(sample())
        data[16] = magic
        for size in (len(data), 20):
            with pytest.raises(error):
                parse_batches(data[:size], allow_partial_tail=True)

    @given(st.binary(max_size=300))
    def test_random_bytes_are_rejected(self, noise: bytes) -> None:
        for allow in (True, False):
            try:
                headers = parse_batches(noise, allow_partial_tail=allow)
            except CorruptBatch:
                continue
            assert sum(header.size for header in headers) <= len(noise)


class TestCrc:
    def test_crc_detects_every_flipped_byte(self) -> None:
        data = bytearray(sample())
        for position in range(17, len(data)):
            data[position] ^= 0x40
            with pytest.raises(CorruptBatch):
                check_crc(data, parse_header(data))
            data[position] ^= 0x40
        check_crc(data, parse_header(data))

    def test_crc_does_not_cover_offset_and_epoch(self) -> None:
        data = bytearray(sample())
        header = parse_header(data)
        patch_offset_and_epoch(data, header, 2**40, 77)
        assert parse_header(data) == header
        assert (header.base_offset, header.leader_epoch) == (2**40, 77)
        check_crc(data, header)

    def test_patches_apply_to_later_batches(self) -> None:
        data = bytearray(sample() + sample())
        first, second = parse_batches(data)
        patch_offset_and_epoch(data, second, 9, 1)
        patch_append_time(data, second, 123)
        assert parse_batches(data) == [first, second]
        check_crc(data, second)
        assert {record.timestamp for record in decode_batch(data, second)} == {123}
        assert [record.timestamp for record in decode_batch(data, first)] == [1000, 1001, 1002]


def test_sequences_wrap() -> None:
    (header,) = parse_batches(sample(4, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 1
    assert parse_batches(sample(4))[0].last_sequence == -1


RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=80),
        st.none() | st.binary(max_size=300),
        st.integers(-1, 2**62),
        st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=30,
)


@given(RECORDS, st.sampled_from(Compression), st.integers(0, 2**50))
def test_built_batches_are_decoded(records: list[Record], codec: Compression, base_offset: int) -> None:
    data = build_batch(records, base_offset=base_offset, compression=codec)
    (header,) = parse_batches(data)
    check_crc(data, header)
    assert header.max_timestamp == max(record.timestamp for record in records)
    decoded = decode_batch(data, header)
    assert decoded == [record._replace(offset=base_offset + i) for i, record in enumerate(records)]


def test_decoding_rejects_wrong_record_counts() -> None:
    data = sample(3)
    for count in (2, 4, 2**31 - 1):
        header = parse_header(data)
        header.record_count = count
        with pytest.raises(InvalidRecords) as refusal:
            decode_batch(data, header)
        assert refusal.value.code is ErrorCode.invalid_record


@given(st.binary(min_size=1, max_size=60), st.integers(1, 3))
def test_decoding_random_bytes_never_crashes(noise: bytes, count: int) -> None:
    header = BatchHeader(0, 0, 49 + len(noise), -1, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    try:
        records = decode_batch(os.urandom(HEADER_SIZE) + noise, header)
    except InvalidRecords:
        return
    assert len(records) == count


def test_empty_batch_keeps_offsets_and_sequence() -> None:
    data = sample(5, base_offset=40, producer_id=9, producer_epoch=2, base_sequence=100, compression=Compression.ZSTD)
    original = parse_header(data)
    empty = parse_header(build_empty_batch(original))
    check_crc(build_empty_batch(original), empty)
    assert (empty.size, empty.record_count, empty.compression) == (HEADER_SIZE, 0, 0)
    assert (empty.base_offset, empty.last_offset, empty.last_sequence) == (40, 44, 104)
    assert (empty.max_timestamp, empty.base_timestamp) == (original.max_timestamp, -1)
    assert decode_batch(build_empty_batch(original), empty) == []


@pytest.mark.parametrize("size", [0, 1, 25, 26, 63, 64, 127, 128])
def test_small_records_have_the_general_layout(size: int) -> None:
    """Lengths and offsets around the sizes at which a varint needs another byte."""
    records = [Record(b"k" * size, b"v" * min(size + 1, 64), 1000) for _ in range(8200 if size == 1 else 100)]
    data = build_batch(records)
    read = decode_batch(data, parse_header(data))
    assert [(one.offset, one.key, one.value, one.timestamp) for one in read] == [
        (offset, one.key, one.value, 1000) for offset, one in enumerate(records)
    ]
