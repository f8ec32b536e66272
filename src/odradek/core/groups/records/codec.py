"""Encodes and decodes records of `__consumer_offsets`, in every version that Kafka 4.3 reads and writes."""

import struct
from typing import Final

from odradek.base.record_form import UnreadableRecord, read_record, write_record
from odradek.core.groups.records import classic, consumer, offsets
from odradek.core.groups.records.classic_mark import mark_absent, unmark_absent
from odradek.core.groups.records.frame import GroupRecord, RecordKey, RecordValue
from odradek.core.groups.records.offsets import OffsetCommitKey, OffsetCommitValue
from odradek.core.groups.records.quick_offsets import (
    OFFSET_KEY_VERSION,
    OFFSET_VALUE_VERSION,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)

_VERSION: Final = struct.Struct(">h")

KEY_TYPES: dict[int, type[RecordKey]] = {
    key_type.KEY_VERSION: key_type
    for family in (offsets, classic, consumer)
    for key_type in vars(family).values()
    if isinstance(key_type, type) and issubclass(key_type, RecordKey) and key_type is not RecordKey
}
VALUE_TYPES: dict[type[RecordKey], type[RecordValue]] = {
    key_type: getattr(family, key_type.__name__.removesuffix("Key") + "Value")
    for family in (offsets, classic, consumer)
    for key_type in KEY_TYPES.values()
    if key_type.__module__ == family.__name__
}


class UnknownKind(UnreadableRecord):
    """A type of record that this release does not use: the loader skips it."""


def encode_key(record: GroupRecord) -> bytes:
    if record.key.__class__ is OffsetCommitKey:
        return encode_offset_key(record.key)
    result = bytearray(_VERSION.pack(record.key.KEY_VERSION))
    write_record(result, record.key, 0)
    return bytes(result)


def encode_value(record: GroupRecord) -> bytes | None:
    if record.value is None:
        return None
    if record.value.__class__ is OffsetCommitValue and record.version == OFFSET_VALUE_VERSION:
        quick = encode_offset_value(record.value)
        if quick is not None:
            return quick
    result = bytearray(_VERSION.pack(record.version))
    write_record(result, record.value, record.version)
    if isinstance(record.value, consumer.ConsumerGroupMemberMetadataValue) and not record.value.classic_member_metadata:
        mark_absent(result)
    return bytes(result)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord:
    if key is None or len(key) < _VERSION.size:
        raise UnreadableRecord("a record of a group without a key")
    (kind,) = _VERSION.unpack_from(key)
    if kind == OFFSET_KEY_VERSION and value is not None:
        quick_key, quick_value = decode_offset_key(key), decode_offset_value(value)
        if quick_key is not None and quick_value is not None:
            return GroupRecord(quick_key, quick_value, OFFSET_VALUE_VERSION)
    key_type = KEY_TYPES.get(kind)
    if key_type is None:
        raise UnknownKind(f"records of kind {kind} are unknown to this release")
    read_key = read_record(key_type, 0, key, _VERSION.size)
    if value is None:
        return GroupRecord(read_key, None)
    if len(value) < _VERSION.size:
        raise UnreadableRecord(f"the value of a {key_type.__name__} has {len(value)} bytes")
    (version,) = _VERSION.unpack_from(value)
    value_type = VALUE_TYPES[key_type]
    if not 0 <= version <= value_type.HIGHEST_VERSION:
        raise UnreadableRecord(f"{value_type.__name__} version {version} is unknown to this release")
    if key_type is consumer.ConsumerGroupMemberMetadataKey:
        value = unmark_absent(value, _VERSION.size)
    return GroupRecord(read_key, read_record(value_type, version, value, _VERSION.size), version)
