"""Validates a client's batch against the topic's configs: accepts it unchanged, patches it, recompresses it, or rejects
it.

Errors have Kafka's codes and messages. Records are read only if the header is not sufficient; `must_walk` returns when,
so that the caller can do that off the event loop.
"""

from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import (
    ATTRIBUTE_APPEND_TIME,
    ATTRIBUTE_COMPRESSION_MASK,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    parse_header,
    patch_append_time,
    patch_create_time,
)
from odradek.records.builder import frame_batch
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Compression, UnknownCompression
from odradek.records.decode import records_payload
from odradek.records.kernels import INT64_MAX, INT64_MIN
from odradek.records.record import InvalidRecords
from odradek.records.walk import INTERPRETED_WALK, Walk

__all__ = ["InvalidRecords", "Validated", "must_walk", "validate"]

_LOG_APPEND_TIME = "LogAppendTime"
_LAST_CODEC = Compression.ZSTD
_DEFAULT_AFTER_MAX_MS = 60 * 60 * 1000
# Kafka lists every rejected record. The limit keeps the response smaller than the request.
_REJECTED_LISTED_MAX = 10_000
_REJECTED_SHOWN_IN_MESSAGE = 3


class Validated(NamedTuple):
    """The bytes to append: those of the request, patched in place, or new ones."""

    data: memoryview
    batches: list[BatchHeader]


def must_walk(header: BatchHeader, config: TopicConfig, now_ms: int, *, is_full: bool = False) -> bool:
    """Whether `validate` reads every record, which takes time in proportion to their decompressed size."""
    if is_full or config.compact:
        return True
    if config.compression_type != "producer" and _target_compression(header, config) != header.compression:
        return True
    if config.message_timestamp_type == _LOG_APPEND_TIME:
        return False
    if config.message_timestamp_before_max_ms != INT64_MAX:
        return True
    after_max_ms = config.message_timestamp_after_max_ms
    # The header has the max timestamp, which is enough for the default bounds.
    return after_max_ms != _DEFAULT_AFTER_MAX_MS or header.max_timestamp - now_ms > after_max_ms


def validate(
    data: bytearray | memoryview,
    batches: list[BatchHeader],
    config: TopicConfig,
    *,
    now_ms: int,
    partition: TopicPartition,
    walk: Walk | None = None,
    opened_bytes_max: int = MAX_DECOMPRESSED_BYTES,
    is_full: bool = False,
) -> Validated:
    """Checks the single batch of a Produce request and applies the topic's configs. Raises KafkaError.

    `is_full`: reads the records of every batch, also where the header is sufficient to apply the configs.
    `walk` reads the records if necessary; None means interpreted. Above `opened_bytes_max` bytes of records it raises
    DecompressionTooLarge without changes: the caller may retry with a higher limit.
    """
    (header,) = batches
    # In Kafka's order, which decides the error code if there are several errors.
    if header.base_offset != 0:
        raise InvalidRecords(
            f"The baseOffset of the record batch in the append to {partition} should be 0, "
            f"but it is {header.base_offset}"
        )
    if header.size > config.max_message_bytes:
        raise _too_large(header.size, config, partition)
    check_crc(data, header)
    if header.attributes & ATTRIBUTE_COMPRESSION_MASK > _LAST_CODEC:
        raise UnknownCompression(header.compression)
    count = header.record_count
    is_miscounted = count <= 0 or header.last_offset_delta + 1 != count
    if is_miscounted or header.attributes & ATTRIBUTE_CONTROL or header.base_sequence < 0 <= header.producer_id:
        raise _header_error(header, partition)
    if must_walk(header, config, now_ms, is_full=is_full):
        payload = records_payload(data, header, opened_bytes_max)
        return _walk_and_patch(data, payload, header, config, now_ms, partition, walk or INTERPRETED_WALK)
    claims_append_time = header.attributes & ATTRIBUTE_APPEND_TIME
    if config.message_timestamp_type == _LOG_APPEND_TIME:
        if claims_append_time:
            raise _append_time_error(header)
        patch_append_time(data, header, now_ms)
    elif claims_append_time:
        _patch_claimed_append_time(data, header)
    return Validated(memoryview(data), batches)


def _header_error(header: BatchHeader, partition: TopicPartition) -> InvalidRecords:
    """The error for an invalid header."""
    offset_range = f"[{header.base_offset}, {header.last_offset}]"
    count = header.record_count
    if header.last_offset_delta < 0:
        reason = f"Batch has an invalid offset range: {offset_range}"
    elif count <= 0:
        reason = f"Invalid reported count for record batch: {count}"
    elif header.last_offset_delta + 1 != count:
        reason = f"Inconsistent batch offset range {offset_range} and count of records {count}"
    elif header.attributes & ATTRIBUTE_CONTROL:
        reason = "Clients are not allowed to write control records"
    else:
        reason = f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
    return InvalidRecords(f"{reason} in topic partition {partition}")


def _too_large(size: int, config: TopicConfig, partition: TopicPartition) -> KafkaError:
    return KafkaError(
        ErrorCode.message_too_large,
        f"The record batch size in the append to {partition} is {size} bytes which exceeds the maximum configured "
        f"value of {config.max_message_bytes}).",
    )


def _walk_and_patch(
    data: bytearray | memoryview,
    payload: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    now_ms: int,
    partition: TopicPartition,
    walk: Walk,
) -> Validated:
    earliest, latest = _bounds(config, now_ms)
    if header.timestamp_type_is_append:
        # The records' own timestamps are ignored: all have the batch's.
        summary = walk.check(payload, header, keys_required=config.compact)
        max_timestamp = header.max_timestamp
        is_rejected = config.log_append_time or max_timestamp == NO_TIMESTAMP or not earliest <= max_timestamp <= latest
    else:
        summary = walk.check(payload, header, earliest=earliest, latest=latest, keys_required=config.compact)
        max_timestamp = summary.max_timestamp
        is_rejected = False
    if is_rejected or summary.rejected_records:
        raise _records_error(payload, header, config, now_ms, partition, walk)
    if not summary.offsets_consecutive:
        raise InvalidRecords(f"Records are not numbered one by one in topic partition {partition}")
    codec = _target_compression(header, config)
    if codec != header.compression:
        return _recompress(payload, header, codec, max_timestamp, config, now_ms, partition)
    if config.log_append_time:
        patch_append_time(data, header, now_ms)
    elif header.timestamp_type_is_append or max_timestamp != header.max_timestamp:
        patch_create_time(data, header, max_timestamp)
    return Validated(memoryview(data), [header])


def _recompress(
    payload: memoryview,
    header: BatchHeader,
    codec: int,
    max_timestamp: int,
    config: TopicConfig,
    now_ms: int,
    partition: TopicPartition,
) -> Validated:
    header.attributes = codec | (header.attributes & ATTRIBUTE_TRANSACTIONAL)
    header.max_timestamp = max_timestamp
    if config.log_append_time:
        header.attributes |= ATTRIBUTE_APPEND_TIME
        header.max_timestamp = now_ms
    header.position = 0
    if codec == Compression.NONE and HEADER_SIZE + payload.nbytes > config.max_message_bytes:
        # Checked before the batch is built, which would need the memory twice.
        raise _too_large(HEADER_SIZE + payload.nbytes, config, partition)
    data = bytearray(frame_batch(payload, header, _compression_level(codec, config)))
    if len(data) > config.max_message_bytes:
        raise _too_large(len(data), config, partition)
    return Validated(memoryview(data), [parse_header(data)])


def _bounds(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    """The allowed timestamps. With LogAppendTime any timestamp is allowed."""
    if config.log_append_time:
        return INT64_MIN, INT64_MAX
    return now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms


def _target_compression(header: BatchHeader, config: TopicConfig) -> int:
    name = config.compression_type
    if name == "producer":
        return header.compression
    return Compression.NONE if name == "uncompressed" else Compression.from_name(name)


def _compression_level(codec: int, config: TopicConfig) -> int | None:
    match codec:
        case Compression.GZIP:
            return config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def _patch_claimed_append_time(data: bytearray | memoryview, header: BatchHeader) -> None:
    """For a producer that sent LogAppendTime although the topic uses CreateTime: all records get the batch's
    timestamp."""
    if header.max_timestamp == NO_TIMESTAMP:
        raise _append_time_error(header)
    patch_create_time(data, header, header.max_timestamp)


def _append_time_error(header: BatchHeader) -> InvalidRecords:
    listed = min(header.record_count, _REJECTED_LISTED_MAX)
    return _timestamps_error([(index, _claimed_append_time(header, index)) for index in range(listed)])


def _claimed_append_time(header: BatchHeader, index: int) -> str:
    return (
        f"Invalid timestamp type in message with offset {index} and timestamp {header.max_timestamp}. "
        "Producer should not set timestamp type to LogAppendTime."
    )


def _timestamps_error(rejected: list[tuple[int, str]]) -> InvalidRecords:
    return InvalidRecords(
        "One or more records have been rejected due to invalid timestamp",
        code=ErrorCode.invalid_timestamp,
        records=tuple(rejected),
    )


def _records_error(
    payload: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int, partition: TopicPartition, walk: Walk
) -> InvalidRecords:
    """The error of every rejected record; a missing key precedes an invalid timestamp."""
    earliest, latest = _bounds(config, now_ms)
    claimed = header.timestamp_type_is_append
    rejected: list[tuple[int, str]] = []
    any_timestamp = False
    index = 0
    for columns in walk.columns(payload, header):
        for row in range(columns.count):
            timestamp = header.max_timestamp if claimed else header.base_timestamp + int(columns.timestamp_deltas[row])
            if config.compact and columns.key_lengths[row] < 0:
                rejected.append(
                    (index, f"Compacted topic cannot accept message without key in topic partition {partition}")
                )
            elif claimed and (config.log_append_time or timestamp == NO_TIMESTAMP):
                any_timestamp = True
                rejected.append((index, _claimed_append_time(header, index)))
            elif timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                any_timestamp = True
                rejected.append(
                    (
                        index,
                        f"Timestamp {timestamp} of message with offset {index} is out of range. "
                        f"The timestamp should be within [{earliest}, {latest}]",
                    )
                )
            index += 1
        if len(rejected) >= _REJECTED_LISTED_MAX:
            break
    if any_timestamp:
        return _timestamps_error(rejected)
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{reason}')"
        for index, reason in rejected[:_REJECTED_SHOWN_IN_MESSAGE]
    )
    return InvalidRecords(
        f"One or more records have been rejected due to {len(rejected)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
        records=tuple(rejected),
    )
