"""Record batches for tests, good and bad: every field of the header can be given, and the CRC left wrong on purpose.

Written apart from `odradek.records` so that the broker is not measured with its own ruler.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import cramjam
from crc32c import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = _HEADER.size
_CRC_STARTS_AT = 21


@dataclass(frozen=True)
class TestRecord:
    value: bytes | None = b"value"
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    timestamp_delta: int = 0
    __test__ = False


@dataclass(frozen=True)
class BatchFields:
    """The header of a batch as it came over the wire."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    body: bytes = field(repr=False)


def varint(value: int) -> bytes:
    """A zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: TestRecord, offset_delta: int) -> bytes:
    body = b"\0" + varint(record.timestamp_delta) + varint(offset_delta) + _sized(record.key) + _sized(record.value)
    body += varint(len(record.headers))
    for name, value in record.headers:
        body += varint(len(name)) + name + _sized(value)
    return varint(len(body)) + body


def compress(codec: int, data: bytes) -> bytes:
    if codec == NONE:
        return data
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec == SNAPPY:
        return _xerial(data)
    if codec == LZ4:
        return _lz4_frame(data)
    return bytes(cramjam.zstd.compress(data))


def _lz4_frame(data: bytes) -> bytes:
    """Independent blocks of 64 KiB: Kafka reads no others. The last byte of the header is its checksum."""
    parts = [b"\x04\x22\x4d\x18\x60\x40\x82"]
    for start in range(0, len(data), 64 * 1024):
        block = bytes(cramjam.lz4.compress_block(data[start : start + 64 * 1024], store_size=False))
        parts += [struct.pack("<I", len(block)), block]
    return b"".join((*parts, b"\0\0\0\0"))


def _xerial(data: bytes) -> bytes:
    """Snappy in the framing of Java's snappy library, as Kafka's clients write it."""
    blocks = [b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), 32 * 1024):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + 32 * 1024]))
        blocks += [struct.pack(">i", len(block)), block]
    return b"".join(blocks)


def batch(
    *records: TestRecord,
    codec: int = NONE,
    timestamp: int = 1_700_000_000_000,
    max_timestamp: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    last_offset_delta: int | None = None,
    record_count: int | None = None,
    crc: int | None = None,
    body: bytes | None = None,
) -> bytes:
    """A batch of version 2; given fields replace the correct values."""
    if body is None:
        body = compress(codec, b"".join(encode_record(record, delta) for delta, record in enumerate(records)))
    if max_timestamp is None:
        max_timestamp = timestamp + max((record.timestamp_delta for record in records), default=0)
    checked = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        len(records) - 1 if last_offset_delta is None else last_offset_delta,
        timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if record_count is None else record_count,
    )
    checked += body
    if crc is None:
        crc = crc32c(checked)
    return struct.pack(">qiibI", base_offset, 9 + len(checked), leader_epoch, magic, crc) + checked


def parse_batches(data: bytes) -> list[BatchFields]:
    """Every complete batch in a fetched records field; a truncated last batch is skipped, as clients do."""
    found = []
    position = 0
    while position + HEADER_SIZE <= len(data):
        values = _HEADER.unpack_from(data, position)
        end = position + 12 + values[1]
        if end > len(data):
            break
        assert crc32c(data[position + _CRC_STARTS_AT : end]) == values[4], f"wrong CRC in the batch at {position}"
        found.append(BatchFields(*(*values, data[position + HEADER_SIZE : end])))
        position = end
    return found
