"""Encodes records as a batch. It must not know logs or topics."""

from collections.abc import Iterable
from typing import Final

from typing_extensions import Buffer

from odradek.records.batch import (
    ATTRIBUTE_APPEND_TIME,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    CRC_AT,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    pack_header,
)
from odradek.records.checksum import crc32c
from odradek.records.compression import Compression, compress
from odradek.records.record import Record
from odradek.records.varint import varint_size, write_varint

# Zigzag varints of one byte and of two.
_ONE_BYTE_MAX: Final = 63
_TWO_BYTES_MAX: Final = 8191


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: int = Compression.NONE,
    compression_level: int | None = None,
    append_time_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """A batch whose records have consecutive offsets; their own `offset` is ignored.

    With `append_time_ms` the batch is of type LogAppendTime: readers use that time instead of each record's own.
    """
    payload = bytearray()
    base_timestamp = max_timestamp = NO_TIMESTAMP
    count = 0
    for record in records:
        if count == 0:
            base_timestamp = record.timestamp
        max_timestamp = max(max_timestamp, record.timestamp)
        write_record(payload, record, count, record.timestamp - base_timestamp)
        count += 1
    attributes = compression
    if append_time_ms is not None:
        attributes |= ATTRIBUTE_APPEND_TIME
        max_timestamp = append_time_ms
    if is_transactional:
        attributes |= ATTRIBUTE_TRANSACTIONAL
    if is_control:
        attributes |= ATTRIBUTE_CONTROL
    return frame_batch(
        payload,
        BatchHeader(
            position=0,
            base_offset=base_offset,
            batch_length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC_V2,
            crc=0,
            attributes=attributes,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=count,
        ),
        compression_level,
    )


def frame_records(payload: Buffer, count: int, timestamp: int, *, compression: int = Compression.NONE) -> bytes:
    """The batch of `count` records that `write_record` has written, all with this timestamp and without a producer."""
    return frame_batch(
        payload,
        BatchHeader(
            position=0,
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC_V2,
            crc=0,
            attributes=compression,
            last_offset_delta=count - 1,
            base_timestamp=timestamp,
            max_timestamp=timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=count,
        ),
    )


def frame_batch(payload: Buffer, header: BatchHeader, compression_level: int | None = None) -> bytes:
    """Compresses records with the codec in the header's attributes, and prepends the header with length and CRC."""
    packed = compress(header.compression, payload, compression_level)
    header.batch_length = HEADER_SIZE - LENGTH_OVERHEAD + len(packed)
    header.size = HEADER_SIZE + len(packed)
    head = bytearray(pack_header(header))
    header.crc = crc32c(packed, crc32c(memoryview(head)[CRC_COVERS_FROM:]))
    head[CRC_AT:CRC_COVERS_FROM] = header.crc.to_bytes(4, "big")
    return b"".join((head, packed))


def build_empty_batch(original: BatchHeader) -> bytes:
    """A batch without records, which retains the offsets and the last sequence of its producer."""
    kept = original.attributes & (ATTRIBUTE_APPEND_TIME | ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL)
    return frame_batch(
        b"",
        BatchHeader(
            position=0,
            base_offset=original.base_offset,
            batch_length=0,
            leader_epoch=original.leader_epoch,
            magic=MAGIC_V2,
            crc=0,
            attributes=kept,
            last_offset_delta=original.last_offset_delta,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=original.max_timestamp,
            producer_id=original.producer_id,
            producer_epoch=original.producer_epoch,
            base_sequence=original.base_sequence,
            record_count=0,
        ),
    )


def write_record(output: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    key, value = record.key, record.value
    if (
        not record.headers
        and key is not None
        and value is not None
        and len(key) <= _ONE_BYTE_MAX
        and len(value) <= _ONE_BYTE_MAX
        and timestamp_delta == 0
        and offset_delta <= _TWO_BYTES_MAX
    ):
        # The shape that coordinators write most.
        doubled = offset_delta << 1
        offset = bytes((doubled,)) if offset_delta <= _ONE_BYTE_MAX else bytes((doubled & 0x7F | 0x80, doubled >> 7))
        write_varint(output, 5 + len(offset) + len(key) + len(value))
        output += b"\0\0%b%c%b%c%b\0" % (offset, len(key) << 1, key, len(value) << 1, value)
        return
    # The length precedes the record, so headers are encoded first.
    tail = bytearray()
    write_varint(tail, len(record.headers))
    for name, content in record.headers:
        encoded = name.encode()
        write_varint(tail, len(encoded))
        tail += encoded
        if content is None:
            write_varint(tail, -1)
        else:
            write_varint(tail, len(content))
            tail += content
    key_bytes = 1 if key is None else varint_size(len(key)) + len(key)
    value_bytes = 1 if value is None else varint_size(len(value)) + len(value)
    write_varint(
        output, 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + key_bytes + value_bytes + len(tail)
    )
    output.append(0)
    write_varint(output, timestamp_delta)
    write_varint(output, offset_delta)
    if key is None:
        output.append(1)
    else:
        write_varint(output, len(key))
        output += key
    if value is None:
        output.append(1)
    else:
        write_varint(output, len(value))
        output += value
    output += tail
