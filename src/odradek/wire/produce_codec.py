"""Hand-written codec for Produce, the one request with a large payload: record batches are not copied.

`kio` would copy every batch; here a partition's records are a view of the frame, which is patched in place and written
to the log. Versions 3 to 13; 9 and later are flexible, 13 identifies topics by ID. Messages about thousands of
partitions are decoded and encoded in slices.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.slices import Slices, run_at_once
from odradek.base.varints import read_unsigned_varint, write_unsigned_varint
from odradek.wire.headers import InvalidHeader, skip_tagged_fields

FIRST_FLEXIBLE: Final = 9
FIRST_WITH_TOPIC_ID: Final = 13
FIRST_WITH_LEADER_HINTS: Final = 10

# Partitions that are decoded or encoded in one slice, which takes about a millisecond.
SLICE_PARTITIONS: Final = 500
# The shortest encoding of a topic and of a partition.
_TOPIC_BYTES_MIN: Final = 6
_FLEXIBLE_TOPIC_BYTES_MIN: Final = 3
_PARTITION_BYTES_MIN: Final = 8
_FLEXIBLE_PARTITION_BYTES_MIN: Final = 6
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
# Flexible, in a request for one partition: transactional ID, acks, timeout, topics, name length; partition number.
_ONE_TOPIC: Final = struct.Struct(">BhiBB")
_ONE_PARTITION: Final = struct.Struct(">Bi")
_PARTITION_AND_LENGTH: Final = struct.Struct(">ii")
_RESULT: Final = struct.Struct(">ihqq")
_RESULT_WITH_LOG_START: Final = struct.Struct(">ihqqq")
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


def read_produce_request(frame: bytearray, offset: int, version: int) -> ProduceRequest | Slices[ProduceRequest]:
    """The request, or the remaining slices of decoding it if it has many partitions.

    Raises SerialError if a field exceeds the frame, and so do the slices.
    """
    try:
        if FIRST_FLEXIBLE <= version < FIRST_WITH_TOPIC_ID:
            request = _read_one_partition(frame, offset)
            if request is not None:
                return request
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise InvalidHeader("truncated Produce request") from error
    slices = _request_slices(frame, offset, version)
    try:
        next(slices)
    except StopIteration as done:
        result: ProduceRequest = done.value
        return result
    return slices


def _request_slices(frame: bytearray, offset: int, version: int) -> Slices[ProduceRequest]:
    try:
        if version < FIRST_FLEXIBLE:
            return (yield from _read_legacy(frame, offset))
        return (yield from _read_flexible(frame, offset, by_id=version >= FIRST_WITH_TOPIC_ID))
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise InvalidHeader("truncated Produce request") from error


def _slice(view: memoryview, start: int, end: int) -> memoryview:
    if start > end or end > len(view):
        raise InvalidHeader("field longer than the request")
    return view[start:end]


def _check_count(count: int, bytes_min: int, bytes_left: int) -> None:
    """Rejects more elements of `bytes_min` than the rest of the frame can hold, before anything is allocated."""
    if count < 0 or count * bytes_min > bytes_left:
        raise InvalidHeader("array longer than the request")


def _varint(frame: bytearray, offset: int) -> tuple[int, int]:
    byte = frame[offset]
    if byte < 0x80:
        return byte, offset + 1
    return read_unsigned_varint(frame, offset)


def _read_one_partition(frame: bytearray, offset: int) -> ProduceRequest | None:
    """The most frequent request: no transaction, one topic with a short name, one partition. None otherwise."""
    transactional, acks, timeout_ms, topic_count, name_length = _ONE_TOPIC.unpack_from(frame, offset)
    name_at = offset + _ONE_TOPIC.size
    name_end = name_at + name_length - 1
    # Three more bytes say that there are no tagged fields: of the partition, of the topic, of the request.
    if transactional or topic_count != 2 or not 1 < name_length < 0x80 or name_end + 9 > len(frame):
        return None
    partition_count, partition = _ONE_PARTITION.unpack_from(frame, name_end)
    length, records_at = read_unsigned_varint(frame, name_end + _ONE_PARTITION.size)
    records_end = len(frame) - 3
    if partition_count != 2 or not length or records_at + length - 1 != records_end or not frame.endswith(b"\0\0\0"):
        return None
    records = memoryview(frame)[records_at:records_end]
    name = frame[name_at:name_end].decode()
    return ProduceRequest(None, acks, timeout_ms, [TopicRecords(name, None, [PartitionRecords(partition, records)])])


def _read_flexible(frame: bytearray, offset: int, *, by_id: bool) -> Slices[ProduceRequest]:
    view = memoryview(frame)
    total = len(frame)
    transactional_id: str | None = None
    length, offset = _varint(frame, offset)
    if length:
        transactional_id = str(_slice(view, offset, offset + length - 1), "utf-8")
        offset += length - 1
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, offset)
    topic_count, offset = _varint(frame, offset + 6)
    topics: list[TopicRecords] = []
    _check_count(topic_count - 1, _FLEXIBLE_TOPIC_BYTES_MIN, total - offset)
    in_slice = 0
    for _ in range(topic_count - 1):
        name: str | None = None
        topic_id: UUID | None = None
        if by_id:
            topic_id = UUID(bytes=bytes(_slice(view, offset, offset + 16)))
            offset += 16
        else:
            length, offset = _varint(frame, offset)
            if not length:
                raise InvalidHeader("a topic without a name")
            name = str(_slice(view, offset, offset + length - 1), "utf-8")
            offset += length - 1
        partition_count, offset = _varint(frame, offset)
        partitions: list[PartitionRecords] = []
        _check_count(partition_count - 1, _FLEXIBLE_PARTITION_BYTES_MIN, total - offset)
        # A topic counts, too.
        in_slice += 1
        for _ in range(partition_count - 1):
            (partition,) = _I32.unpack_from(frame, offset)
            length, offset = _varint(frame, offset + 4)
            records: memoryview | None = None
            if length:
                records = _slice(view, offset, offset + length - 1)
                offset += length - 1
            partitions.append(PartitionRecords(partition, records))
            offset = skip_tagged_fields(frame, offset) if frame[offset] else offset + 1
            in_slice += 1
            if in_slice >= SLICE_PARTITIONS:
                in_slice = 0
                yield
        topics.append(TopicRecords(name, topic_id, partitions))
        offset = skip_tagged_fields(frame, offset) if frame[offset] else offset + 1
        if in_slice >= SLICE_PARTITIONS:
            in_slice = 0
            yield
    if frame[offset]:
        skip_tagged_fields(frame, offset)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_legacy(frame: bytearray, offset: int) -> Slices[ProduceRequest]:
    view = memoryview(frame)
    total = len(frame)
    transactional_id: str | None = None
    (length,) = _I16.unpack_from(frame, offset)
    offset += 2
    if length >= 0:
        transactional_id = str(_slice(view, offset, offset + length), "utf-8")
        offset += length
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, offset)
    (topic_count,) = _I32.unpack_from(frame, offset + 6)
    offset += 10
    topics: list[TopicRecords] = []
    _check_count(topic_count, _TOPIC_BYTES_MIN, total - offset)
    in_slice = 0
    for _ in range(topic_count):
        (length,) = _I16.unpack_from(frame, offset)
        offset += 2
        name = str(_slice(view, offset, offset + length), "utf-8")
        offset += length
        (partition_count,) = _I32.unpack_from(frame, offset)
        offset += 4
        partitions: list[PartitionRecords] = []
        _check_count(partition_count, _PARTITION_BYTES_MIN, total - offset)
        in_slice += 1
        for _ in range(partition_count):
            partition, length = _PARTITION_AND_LENGTH.unpack_from(frame, offset)
            offset += 8
            records: memoryview | None = None
            if length >= 0:
                records = _slice(view, offset, offset + length)
                offset += length
            partitions.append(PartitionRecords(partition, records))
            in_slice += 1
            if in_slice >= SLICE_PARTITIONS:
                in_slice = 0
                yield
        topics.append(TopicRecords(name, None, partitions))
        if in_slice >= SLICE_PARTITIONS:
            in_slice = 0
            yield
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def write_produce_response(topics: Sequence[TopicResult], version: int, throttle_ms: int = 0) -> bytes:
    flexible = version >= FIRST_FLEXIBLE
    if flexible and throttle_ms == 0 and len(topics) == 1:
        topic = topics[0]
        if len(topic.partitions) == 1 and topic.partitions[0].error is ErrorCode.none:
            return _one_success(topic, topic.partitions[0])
    return b"".join(run_at_once(produce_response_slices(topics, version, throttle_ms)))


def produce_response_slices(topics: Sequence[TopicResult], version: int, throttle_ms: int = 0) -> Slices[list[bytes]]:
    """Returns the chunks of the response."""
    flexible = version >= FIRST_FLEXIBLE
    chunks: list[bytes] = []
    out = bytearray(_array_length(len(topics), flexible))
    in_slice = 0
    for topic in topics:
        if topic.topic_id is not None:
            out += topic.topic_id.bytes
        else:
            out += _string(topic.name or "", flexible)
        out += _array_length(len(topic.partitions), flexible)
        in_slice += 1
        for result in topic.partitions:
            _write_partition(out, result, version, flexible)
            in_slice += 1
            if in_slice >= SLICE_PARTITIONS:
                in_slice = 0
                chunks.append(bytes(out))
                out.clear()
                yield
        if flexible:
            out.append(0)
    out += _I32.pack(throttle_ms)
    if flexible:
        out.append(0)
    return [*chunks, bytes(out)]


def patch_throttle_ms(response: bytes, version: int, throttle_ms: int) -> bytes:
    """Writes it into an encoded response, where only the tagged fields follow: there are none."""
    end = len(response) - (1 if version >= FIRST_FLEXIBLE else 0)
    return response[: end - _I32.size] + _I32.pack(throttle_ms) + response[end:]


def _one_success(topic: TopicResult, result: PartitionResult) -> bytes:
    """The most frequent response: one partition, no error. Flexible versions only."""
    name = topic.topic_id.bytes if topic.topic_id is not None else _string(topic.name or "", True)
    numbers = _RESULT_WITH_LOG_START.pack(
        result.partition, 0, result.base_offset, result.append_time_ms, result.log_start_offset
    )
    # One topic, one partition; after the numbers no record errors, no message, no throttle, no tagged fields.
    return b"".join((b"\2", name, b"\2", numbers, b"\1\0\0\0\0\0\0\0\0"))


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
