"""Decodes a batch to Python records, for everything except the hot path, which never reads records."""

from collections.abc import Iterator

from typing_extensions import Buffer

from odradek.records.batch import HEADER_SIZE, BatchHeader
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from odradek.records.kernels import add_saturating, read_record, read_varint
from odradek.records.record import InvalidRecords, Record


def records_payload(buffer: Buffer, header: BatchHeader, max_output_bytes: int = MAX_DECOMPRESSED_BYTES) -> memoryview:
    """The batch's encoded records, decompressed if necessary."""
    view = memoryview(buffer).cast("B")
    packed = view[header.position + HEADER_SIZE : header.position + header.size]
    return memoryview(decompress(header.compression, packed, max_output_bytes)).cast("B")


def decode_batch(
    buffer: Buffer, header: BatchHeader, *, max_output_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """All records of the batch; the caller has checked the CRC. Raises InvalidRecords if they are malformed."""
    return decode_records(records_payload(buffer, header, max_output_bytes), header)


def decode_records(payload: memoryview, header: BatchHeader) -> list[Record]:
    return list(iterate_records(payload, header))


def iterate_records(payload: memoryview, header: BatchHeader) -> Iterator[Record]:
    """Lazily, because a few bytes may contain millions of records."""
    append_time = header.max_timestamp if header.timestamp_type_is_append else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    position, size = 0, payload.nbytes
    for number in range(header.record_count):
        end, timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, headers_start = (
            read_record(payload, position, size)
        )
        if end < 0:
            raise malformed_record(header, number)
        yield Record(
            None if key_length < 0 else payload[key_start : key_start + key_length].tobytes(),
            None if value_length < 0 else payload[value_start : value_start + value_length].tobytes(),
            add_saturating(base_timestamp, timestamp_delta) if append_time is None else append_time,
            _decode_headers(payload, headers_start, end),
            base_offset + offset_delta,
        )
        position = end
    if position != size:
        raise unread_bytes(header)


def keys_and_values(payload: memoryview, header: BatchHeader) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record: faster than decoding whole records."""
    data = payload.tobytes()
    size = len(data)
    base_offset = header.base_offset
    position = 0
    found: list[tuple[int, bytes | None, bytes | None]] = []
    for number in range(header.record_count):
        plain = _plain_record(data, position, size)
        if plain is not None:
            offset_delta, key_start, value_start, end = plain
            found.append((base_offset + offset_delta, data[key_start : value_start - 1], data[value_start : end - 1]))
            position = end
            continue
        end, _, offset_delta, key_start, key_length, value_start, value_length, _ = read_record(data, position, size)
        if end < 0:
            raise malformed_record(header, number)
        found.append(
            (
                base_offset + offset_delta,
                None if key_length < 0 else data[key_start : key_start + key_length],
                None if value_length < 0 else data[value_start : value_start + value_length],
            )
        )
        position = end
    if position != size:
        raise unread_bytes(header)
    return found


def _plain_record(data: bytes, position: int, size: int) -> tuple[int, int, int, int] | None:
    """Offset delta, positions of key and value, and end of a simple record: key and value below 64 bytes, no headers,
    no timestamp delta. Coordinators write almost only such records. None for other or malformed records."""
    if size - position < 8:
        return None
    length = data[position]
    position += 1
    if length > 127:
        high = data[position]
        position += 1
        if high > 127:
            return None
        length = length & 0x7F | high << 7
    end = position + (length >> 1)
    if length & 1 or end > size or end - position < 6 or data[position + 1]:
        return None
    delta = data[position + 2]
    position += 3
    if delta > 127:
        high = data[position]
        position += 1
        if high > 127:
            return None
        delta = delta & 0x7F | high << 7
    key_length = data[position]
    value_at = position + 1 + (key_length >> 1)
    if delta & 1 or key_length & 0x81 or value_at >= end:
        return None
    value_length = data[value_at]
    if value_length & 0x81 or value_at + 1 + (value_length >> 1) != end - 1 or data[end - 1]:
        return None
    return delta >> 1, position + 1, value_at + 1, end


def malformed_record(header: BatchHeader, number: int) -> InvalidRecords:
    return InvalidRecords(f"Record {number} of the batch at offset {header.base_offset} is malformed")


def unread_bytes(header: BatchHeader) -> InvalidRecords:
    return InvalidRecords(
        f"The batch at offset {header.base_offset} declares {header.record_count} records, but more bytes follow them"
    )


def _decode_headers(payload: memoryview, position: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    count, position = read_varint(payload, position, end)
    if count == 0:
        return ()
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(payload, position, end)
        # Like Java: invalid UTF-8 is replaced, not rejected.
        name = str(payload[position : position + length], "utf-8", "replace")
        length, position = read_varint(payload, position + length, end)
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, payload[position : position + length].tobytes()))
            position += length
    return tuple(headers)
