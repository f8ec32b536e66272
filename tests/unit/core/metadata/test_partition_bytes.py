"""Partitions written without kio are the same bytes, and what is not plain is left to it."""

import io
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from odradek.base.record_form import _class_of_version, _new_reader
from odradek.core.metadata.records import PartitionRecord, UnreadableRecord, decode, encode
from odradek.core.metadata.records.partition_bytes import decode_plain, encode_plain

ids = st.integers(-(2**31), 2**31 - 1)
id_lists = st.lists(ids, max_size=5).map(tuple)
uuids = st.one_of(st.just(None), st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number)))
records = st.builds(
    PartitionRecord,
    partition_id=ids,
    topic_id=st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number)),
    replicas=id_lists,
    isr=id_lists,
    removing_replicas=id_lists,
    adding_replicas=id_lists,
    leader=ids,
    leader_recovery_state=st.integers(0, 1),
    leader_epoch=ids,
    partition_epoch=ids,
    directories=st.lists(uuids, max_size=5).map(tuple),
    eligible_leader_replicas=st.one_of(st.none(), id_lists),
    last_known_elr=st.one_of(st.none(), id_lists),
)


def by_kio(record: Any, version: int) -> bytes:
    buffer = io.BytesIO()
    entity_writer(_class_of_version(PartitionRecord, version, True))(buffer, record)
    return bytes((1, 3, version)) + buffer.getvalue()


@given(records, st.sampled_from([1, 2]))
def test_encoding_equals_kio(record: PartitionRecord, version: int) -> None:
    assert encode(record, version) == by_kio(record, version)
    if version == 2:
        assert decode(encode(record, version)) == record


@given(records, st.sampled_from([1, 2]))
def test_decoding_equals_kio(record: PartitionRecord, version: int) -> None:
    data = by_kio(record, version)
    plain = decode_plain(data)
    assert plain is None or plain == _new_reader(PartitionRecord, version)(data, 3)


@given(records, st.data())
def test_damaged_record_is_left_to_kio(record: PartitionRecord, data: Any) -> None:
    whole = encode(record, 2)
    cut = whole[: data.draw(st.integers(3, len(whole) - 1))]
    assert decode_plain(cut) is None or decode_plain(cut) == _new_reader(PartitionRecord, 2)(cut, 3)
    at = data.draw(st.integers(3, len(whole) - 1))
    changed = whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]
    try:
        plain = decode_plain(changed)
        assert plain is None or plain == _new_reader(PartitionRecord, 2)(changed, 3)
        decode(changed)
    except UnreadableRecord:
        pass


def test_equal_parts_are_shared() -> None:
    record = PartitionRecord(
        partition_id=7,
        topic_id=UUID(int=9),
        replicas=(1000, 2000),
        isr=(1000, 2000),
        leader=1000,
        leader_epoch=0,
        partition_epoch=0,
        directories=(UUID(int=5), None),
    )
    one, other = decode_plain(encode(record, 2)), decode_plain(encode(record, 2))
    assert one is not None and other is not None
    assert one == record
    assert one.replicas is other.replicas is one.isr
    assert one.directories is other.directories
    assert one.topic_id is other.topic_id


def test_new_partition_uses_the_fast_path() -> None:
    record = PartitionRecord(
        partition_id=7,
        topic_id=UUID(int=9),
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(UUID(int=5), UUID(int=6)),
    )
    assert encode_plain(record, 2) == by_kio(record, 2)


def test_version_0_is_left_to_kio() -> None:
    record = PartitionRecord(
        partition_id=7, topic_id=UUID(int=9), replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
    )
    assert encode_plain(record, 0) is None
    assert encode(record, 0) == by_kio(record, 0)
