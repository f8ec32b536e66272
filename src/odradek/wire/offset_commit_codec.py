"""Hand-written codec for usual OffsetCommit requests, and for responses without errors.

Groups commit often and commits rarely fail. Unusual requests and responses are left to the generic codec.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.core.groups.commands import PartitionOffset, TopicErrors

FIRST_WITH_THROTTLE: Final = 3
FIRST_FLEXIBLE: Final = 8
FIRST_BY_TOPIC_ID: Final = 10

_NOT_THROTTLED: Final = bytes(4)
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ih")
_FLEXIBLE_PARTITION: Final = struct.Struct(">ihB")
# The maximum length of a compact array or string whose length takes one byte.
_ONE_BYTE_MAX: Final = 126
_OFFSET: Final = struct.Struct(">iqi")
# Larger requests are decoded in a thread.
_DECODED_BYTES_MAX: Final = 32_768


class CommitTopic(NamedTuple):
    name: str
    topic_id: UUID | None
    partitions: list[PartitionOffset]


class CommitRequest(NamedTuple):
    """With the field names of the generic message, except for the offsets."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: list[CommitTopic]


def read_plain(frame: bytes | bytearray, body: int, version: int) -> CommitRequest | None:
    """None for versions below 8, and for requests that are malformed, have tagged fields, or have lengths of more
    than one byte."""
    if version < FIRST_FLEXIBLE or len(frame) > _DECODED_BYTES_MAX:
        return None
    try:
        request, end = _read(frame, body, version)
    except (_Unusual, IndexError, struct.error, ValueError):
        return None
    return request if end == len(frame) else None


class _Unusual(Exception):
    pass


def _read(frame: bytes | bytearray, at: int, version: int) -> tuple[CommitRequest, int]:
    group_id, at = _string(frame, at)
    (generation,) = _COUNT.unpack_from(frame, at)
    member_id, at = _string(frame, at + 4)
    instance_id, at = _nullable_string(frame, at)
    topics: list[CommitTopic] = []
    topic_count, at = _count(frame, at)
    for _ in range(topic_count):
        if version >= FIRST_BY_TOPIC_ID:
            name, topic_id = "", UUID(bytes=bytes(frame[at : at + 16]))
            at += 16
        else:
            topic_id = None
            name, at = _string(frame, at)
        partitions: list[PartitionOffset] = []
        partition_count, at = _count(frame, at)
        for _ in range(partition_count):
            index, offset, leader_epoch = _OFFSET.unpack_from(frame, at)
            metadata, at = _nullable_string(frame, at + 16)
            at = _no_tagged_fields(frame, at)
            partitions.append(PartitionOffset(index, offset, leader_epoch, metadata))
        at = _no_tagged_fields(frame, at)
        topics.append(CommitTopic(name, topic_id, partitions))
    return CommitRequest(group_id, generation, member_id, instance_id, topics), _no_tagged_fields(frame, at)


def _count(frame: bytes | bytearray, at: int) -> tuple[int, int]:
    count = frame[at]
    if not 0 < count <= _ONE_BYTE_MAX + 1:
        raise _Unusual
    return count - 1, at + 1


def _string(frame: bytes | bytearray, at: int) -> tuple[str, int]:
    count = frame[at]
    if not 0 < count <= _ONE_BYTE_MAX + 1:
        raise _Unusual
    end = at + count
    return ("", end) if count == 1 else (str(frame[at + 1 : end], "utf-8"), end)


def _nullable_string(frame: bytes | bytearray, at: int) -> tuple[str | None, int]:
    return (None, at + 1) if frame[at] == 0 else _string(frame, at)


def _no_tagged_fields(frame: bytes | bytearray, at: int) -> int:
    if frame[at]:
        raise _Unusual
    return at + 1


def write_success_response(topics: Sequence[TopicErrors], version: int) -> bytes | None:
    """None if a partition has an error, or a length takes more than one byte."""
    return _flexible(topics, version) if version >= FIRST_FLEXIBLE else _legacy(topics, version)


def _flexible(topics: Sequence[TopicErrors], version: int) -> bytes | None:
    if len(topics) > _ONE_BYTE_MAX:
        return None
    out = bytearray(_NOT_THROTTLED)
    out.append(len(topics) + 1)
    none = ErrorCode.none
    for topic in topics:
        if version >= FIRST_BY_TOPIC_ID:
            out += (topic.topic_id or ZERO_UUID).bytes
        else:
            name = topic.topic.encode()
            if len(name) > _ONE_BYTE_MAX:
                return None
            out.append(len(name) + 1)
            out += name
        partitions = topic.partitions
        if len(partitions) > _ONE_BYTE_MAX:
            return None
        out.append(len(partitions) + 1)
        for partition, error in partitions:
            if error is not none:
                return None
            out += _FLEXIBLE_PARTITION.pack(partition, 0, 0)
        out.append(0)
    out.append(0)
    return bytes(out)


def _legacy(topics: Sequence[TopicErrors], version: int) -> bytes | None:
    out = bytearray(_NOT_THROTTLED if version >= FIRST_WITH_THROTTLE else b"")
    out += _COUNT.pack(len(topics))
    for topic in topics:
        name = topic.topic.encode()
        out += _LENGTH.pack(len(name))
        out += name
        out += _COUNT.pack(len(topic.partitions))
        for partition, error in topic.partitions:
            if error is not ErrorCode.none:
                return None
            out += _PARTITION.pack(partition, 0)
    return bytes(out)
