"""Produce by hand: the one request whose payload is large, so that record batches stay where they arrived.

`kio` would copy every batch; here a partition's records are a view of the frame, patched in place and written to the
log from there. Versions 3 to 13; 9 and later are flexible, 13 names topics by id.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.protocol.headers import InvalidHeader, read_unsigned_varint, skip_tagged_fields, write_unsigned_varint

FIRST_FLEXIBLE: Final = 9
FIRST_WITH_TOPIC_ID: Final = 13
FIRST_WITH_LEADER_HINTS: Final = 10

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_RESULT: Final = struct.Struct(">ihqq")
_I64: Final = struct.Struct(">q")


class PartitionRecords(NamedTuple):
    partition: int
    records: memoryview | None


class TopicRecords(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: list[PartitionRecords]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


class RecordError(NamedTuple):
    batch_index: int
    message: str | None


class PartitionResult(NamedTuple):
    partition: int
    error: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    message: str | None = None


class TopicResult(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: list[PartitionResult]


class _Cursor:
    """Reads the primitive types, each checked against the end of the frame before it is taken."""

    __slots__ = ("buffer", "flexible", "offset", "view")

    def __init__(self, buffer: bytearray, offset: int, flexible: bool) -> None:
        self.buffer = buffer
        self.view = memoryview(buffer)
        self.offset = offset
        self.flexible = flexible

    def take(self, size: int) -> memoryview:
        start = self.offset
        end = start + size
        if size < 0 or end > len(self.buffer):
            raise InvalidHeader("a field longer than the request")
        self.offset = end
        return self.view[start:end]

    def int32(self) -> int:
        return int(_I32.unpack(self.take(4))[0])

    def length(self, legacy: struct.Struct) -> int:
        """A length prefix; -1 for null."""
        if self.flexible:
            value, self.offset = read_unsigned_varint(self.buffer, self.offset)
            return value - 1
        return int(legacy.unpack(self.take(legacy.size))[0])

    def nullable_string(self) -> str | None:
        length = self.length(_I16)
        if length < 0:
            return None
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidHeader("a string that is not UTF-8") from error

    def array_length(self) -> int:
        length = self.length(_I32)
        if length < 0 or length > len(self.buffer) - self.offset:
            raise InvalidHeader("an array longer than the request")
        return length

    def nullable_records(self) -> memoryview | None:
        length = self.length(_I32)
        return None if length < 0 else self.take(length)

    def end_of_struct(self) -> None:
        if self.flexible:
            self.offset = skip_tagged_fields(self.buffer, self.offset)


def read_produce_request(frame: bytearray, offset: int, version: int) -> ProduceRequest:
    cursor = _Cursor(frame, offset, version >= FIRST_FLEXIBLE)
    transactional_id = cursor.nullable_string()
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack(cursor.take(6))
    topics = [_read_topic(cursor, version) for _ in range(cursor.array_length())]
    cursor.end_of_struct()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_topic(cursor: _Cursor, version: int) -> TopicRecords:
    name: str | None = None
    topic_id: UUID | None = None
    if version >= FIRST_WITH_TOPIC_ID:
        topic_id = UUID(bytes=bytes(cursor.take(16)))
    else:
        name = cursor.nullable_string()
        if name is None:
            raise InvalidHeader("a topic without a name")
    partitions = []
    for _ in range(cursor.array_length()):
        partition = cursor.int32()
        partitions.append(PartitionRecords(partition, cursor.nullable_records()))
        cursor.end_of_struct()
    cursor.end_of_struct()
    return TopicRecords(name, topic_id, partitions)


def write_produce_response(topics: Sequence[TopicResult], version: int, throttle_ms: int = 0) -> bytes:
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(_array_length(len(topics), flexible))
    for topic in topics:
        if topic.topic_id is not None:
            out += topic.topic_id.bytes
        else:
            out += _string(topic.name or "", flexible)
        out += _array_length(len(topic.partitions), flexible)
        for result in topic.partitions:
            _write_partition(out, result, version, flexible)
        if flexible:
            out.append(0)
    out += _I32.pack(throttle_ms)
    if flexible:
        out.append(0)
    return bytes(out)


def _write_partition(out: bytearray, result: PartitionResult, version: int, flexible: bool) -> None:
    out += _RESULT.pack(result.partition, result.error, result.base_offset, result.append_time_ms)
    if version >= 5:
        out += _I64.pack(result.log_start_offset)
    if version >= 8:
        out += _array_length(len(result.record_errors), flexible)
        for error in result.record_errors:
            out += _I32.pack(error.batch_index)
            out += _nullable_string(error.message, flexible)
            if flexible:
                out.append(0)
        out += _nullable_string(result.message, flexible)
    if flexible:
        out.append(0)


def _array_length(length: int, flexible: bool) -> bytes:
    return write_unsigned_varint(length + 1) if flexible else _I32.pack(length)


def _string(text: str, flexible: bool) -> bytes:
    raw = text.encode()
    return (write_unsigned_varint(len(raw) + 1) if flexible else _I16.pack(len(raw))) + raw


def _nullable_string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    return _string(text, flexible)
