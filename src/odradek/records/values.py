"""Batches of records with only a value and one timestamp, without keys and headers, as in the metadata log.

A snapshot has millions of such records. They are encoded and decoded here without an object for each; `decode` handles
records of any other shape.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from odradek.records.batch import MAGIC_V2, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader
from odradek.records.builder import frame_batch
from odradek.records.decode import malformed_record, records_payload, unread_bytes
from odradek.records.kernels import read_record
from odradek.records.varint import varint_size, write_varint

_NO_KEY = 1
# No attributes, and a timestamp delta of 0.
_RECORD_HEAD = b"\0\0"
_NO_HEADERS = 0
# The bytes of a plain record that are read before its value.
_GLANCE_BYTES = 12
_SURROUNDINGS_MAX = 256


def build_values_batch(values: Iterable[bytes], *, timestamp: int, base_offset: int, leader_epoch: int) -> bytes:
    payload = bytearray()
    count = 0
    for value in values:
        size = len(value)
        before, behind = _surroundings(size, varint_size(count))
        payload += before
        write_varint(payload, count)
        payload += behind
        payload += value
        payload.append(_NO_HEADERS)
        count += 1
    return frame_batch(
        payload,
        BatchHeader(
            position=0,
            base_offset=base_offset,
            batch_length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC_V2,
            crc=0,
            attributes=0,
            last_offset_delta=count - 1,
            base_timestamp=timestamp if count else NO_TIMESTAMP,
            max_timestamp=timestamp if count else NO_TIMESTAMP,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=count,
        ),
    )


@lru_cache(_SURROUNDINGS_MAX)
def _surroundings(value_size: int, offset_size: int) -> tuple[bytes, bytes]:
    """The bytes before and after the offset, equal for most records of a batch."""
    before, behind = bytearray(), bytearray((_NO_KEY,))
    write_varint(behind, value_size)
    write_varint(before, len(_RECORD_HEAD) + offset_size + len(behind) + value_size + 1)
    return bytes(before + _RECORD_HEAD), bytes(behind)


def read_values(buffer: bytes, header: BatchHeader) -> Iterator[bytes | None]:
    """The value of each record. Raises InvalidRecords if records are malformed."""
    payload = bytes(records_payload(buffer, header))
    position, size = 0, len(payload)
    for number in range(header.record_count):
        plain = _plain_value(payload, position, size)
        if plain is not None:
            start, end = plain
            yield payload[start:end]
            position = end + 1
            continue
        end, _, _, _, _, start, length, _ = read_record(payload, position, size)
        if end < 0:
            raise malformed_record(header, number)
        yield None if length < 0 else payload[start : start + length]
        position = end
    if position != size:
        raise unread_bytes(header)


def _plain_value(payload: bytes, position: int, size: int) -> tuple[int, int] | None:
    """The position of the value of a record without key and headers; None if the record has another shape."""
    if position + _GLANCE_BYTES > size:
        return None
    # Lengths of one or two bytes; an odd one would be negative.
    length = payload[position]
    position += 1
    if length & 0x80:
        length = length & 0x7F | payload[position] << 7
        position += 1
    if length & 1 or length > 0x3FFF:
        return None
    last = position + (length >> 1) - 1
    if last >= size or last < position + 5 or payload[last] != _NO_HEADERS:
        return None
    # After attributes and timestamp follows the offset, of up to three bytes.
    position += 2
    if payload[position - 1] & 0x80:
        return None
    for _ in range(2):
        if payload[position] & 0x80:
            position += 1
    if payload[position] & 0x80 or payload[position + 1] != _NO_KEY:
        return None
    length = payload[position + 2]
    position += 3
    if length & 0x80:
        length = length & 0x7F | payload[position] << 7
        position += 1
    if length & 1 or position + (length >> 1) != last:
        return None
    return position, last
