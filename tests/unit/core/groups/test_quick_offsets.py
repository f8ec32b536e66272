"""The short way of offsets to bytes and back gives what the long way gives, or nothing."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.record_form import read_record, write_record
from odradek.core.groups.records import (
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    UnreadableRecord,
    decode,
    encode_key,
    encode_value,
)
from odradek.core.groups.records.quick_offsets import decode_offset_key, decode_offset_value

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
KEYS = st.builds(OffsetCommitKey, group=TEXT, topic=TEXT, partition=st.integers(-(2**31), 2**31 - 1))
VALUES = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=TEXT,
    commit_timestamp=INT64,
    topic_id=st.none() | st.uuids().filter(lambda one: one.int != 0),
)


def long_way(version: int, form: OffsetCommitKey | OffsetCommitValue, form_version: int) -> bytes:
    out = bytearray(version.to_bytes(2, "big"))
    write_record(out, form, form_version)
    return bytes(out)


@given(KEYS, VALUES)
def test_quick_encoder_writes_the_same_bytes(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    record = GroupRecord(key, value, 4)
    assert encode_key(record) == long_way(1, key, 0)
    assert encode_value(record) == long_way(4, value, 4)
    assert decode(encode_key(record), encode_value(record)) == record


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_quick_decoder_reads_every_record_like_the_general_one(key: bytes, value: bytes) -> None:
    key, value = b"\0\1" + key, b"\0\4" + value
    quick_key, quick_value = decode_offset_key(key), decode_offset_value(value)
    if quick_key is not None:
        assert quick_key == read_record(OffsetCommitKey, 0, key, 2)
    if quick_value is not None:
        assert quick_value == read_record(OffsetCommitValue, 4, value, 2)


def test_zero_topic_id_is_read_as_none() -> None:
    value = b"\0\4" + bytes(12) + b"\1" + bytes(8) + b"\1\0\x10" + bytes(16)
    assert decode_offset_value(value) == read_record(OffsetCommitValue, 4, value, 2)


def test_truncated_record_is_unreadable() -> None:
    record = GroupRecord(
        OffsetCommitKey(group="group", topic="topic", partition=1),
        OffsetCommitValue(offset=5, metadata="words", commit_timestamp=7, topic_id=UUID(int=9)),
        4,
    )
    key, value = encode_key(record), encode_value(record)
    assert value is not None
    for size in range(2, len(key)):
        with pytest.raises(UnreadableRecord):
            decode(key[:size], value)
    for size in range(2, len(value)):
        with pytest.raises(UnreadableRecord):
            decode(key, value[:size])
