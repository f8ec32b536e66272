"""The 61-byte header of a record batch (magic 2): parses it, checks its CRC, and patches the fields that the broker
sets.

It never reads records: on the hot path a batch is a header followed by opaque bytes.
"""

from struct import Struct
from struct import error as StructError

from typing_extensions import Buffer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.checksum import crc32c

HEADER_SIZE = 61
# The batch length field counts the bytes after it: everything except the base offset and itself.
LENGTH_OVERHEAD = 12
MAGIC_V2 = 2

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

ATTRIBUTE_COMPRESSION_MASK = 0x07
ATTRIBUTE_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20
ATTRIBUTE_DELETE_HORIZON = 0x40

_HEADER = Struct(">qiibIhiqqqhii")
_BATCH_LENGTH = Struct(">i")
_OFFSET_LENGTH_EPOCH = Struct(">qii")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")

_LENGTH_AT = 8
_MAGIC_AT = 16
CRC_AT = 17
# The CRC covers the bytes after it; base offset and leader epoch precede it, so that a broker may set them.
CRC_COVERS_FROM = 21
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35

assert _HEADER.size == HEADER_SIZE


class CorruptBatch(KafkaError):
    """The bytes are not a record batch: CORRUPT_MESSAGE for a client, the end of the valid log for recovery."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.corrupt_message, message)


class UnsupportedMagic(CorruptBatch):
    """A message set of a format before Kafka 0.11 (magic 0 or 1), which is not supported."""


class BatchHeader:
    """One batch's header, and the batch's `position` in its buffer and `size` including the header."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    def __init__(
        self,
        position: int,
        base_offset: int,
        batch_length: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count
        self.position = position
        self.size = batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 are unassigned."""
        return self.attributes & ATTRIBUTE_COMPRESSION_MASK

    @property
    def timestamp_type_is_append(self) -> bool:
        return self.attributes & ATTRIBUTE_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & ATTRIBUTE_TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & ATTRIBUTE_CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """If set, the base timestamp is the time after which the batch's tombstones may be removed (KIP-534)."""
        return self.attributes & ATTRIBUTE_DELETE_HORIZON != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & ATTRIBUTE_DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap from 2³¹−1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"BatchHeader({fields})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable: offsets are patched in place


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the buffer must contain its 61 bytes, but not the records."""
    header = BatchHeader(position, *_HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC_V2 or header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
        _raise_malformed(header.batch_length, header.magic, position)
    return header


def parse_batches(buffer: Buffer, *, allow_partial_tail: bool = False) -> list[BatchHeader]:
    """The headers of all batches in the buffer, which must contain whole batches and nothing else.

    With `allow_partial_tail` an incomplete last batch is ignored, like Kafka does in requests and Fetch responses: the
    valid bytes end with the last header's `position + size`.
    """
    headers: list[BatchHeader] = []
    end = memoryview(buffer).nbytes
    position = 0
    unpack_from = _HEADER.unpack_from
    while end - position >= HEADER_SIZE:
        header = BatchHeader(position, *unpack_from(buffer, position))
        if header.magic != MAGIC_V2 or header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
            _raise_malformed(header.batch_length, header.magic, position)
        if header.size > end - position:
            break
        headers.append(header)
        position += header.size
    if position != end:
        _check_tail(buffer, position, end, allow_partial_tail)
    return headers


def is_transactional(buffer: Buffer) -> bool:
    """Whether the buffer begins with a transactional batch. False for bytes that are not a whole batch."""
    try:
        (attributes,) = _ATTRIBUTES.unpack_from(buffer, _ATTRIBUTES_AT)
    except StructError:
        return False
    # Most batches are not: the rest of the header does not matter.
    if not attributes & ATTRIBUTE_TRANSACTIONAL or memoryview(buffer).nbytes < HEADER_SIZE:
        return False
    header = BatchHeader(0, *_HEADER.unpack_from(buffer, 0))
    return header.magic == MAGIC_V2 and header.size <= memoryview(buffer).nbytes


def _check_tail(buffer: Buffer, position: int, end: int, allow_partial_tail: bool) -> None:
    """Checks that the remaining bytes are the beginning of a batch, as far as they show."""
    if end - position > _MAGIC_AT:
        (length,) = _BATCH_LENGTH.unpack_from(buffer, position + _LENGTH_AT)
        magic = memoryview(buffer).cast("B")[position + _MAGIC_AT]
        if magic != MAGIC_V2 or length < HEADER_SIZE - LENGTH_OVERHEAD:
            _raise_malformed(length, magic, position)
    if not allow_partial_tail:
        raise CorruptBatch(f"{end - position} bytes at position {position} are not a complete record batch")


def _raise_malformed(length: int, magic: int, position: int) -> None:
    if magic in (0, 1):
        raise UnsupportedMagic(f"Record batch at position {position} has magic {magic}; only magic 2 is supported")
    if magic != MAGIC_V2:
        raise CorruptBatch(f"Invalid magic found in record: {magic}")
    raise CorruptBatch(
        f"Record batch at position {position} has {length + LENGTH_OVERHEAD} bytes, fewer than a header's {HEADER_SIZE}"
    )


def compute_crc(buffer: Buffer, header: BatchHeader) -> int:
    position = header.position
    return crc32c(memoryview(buffer)[position + CRC_COVERS_FROM : position + header.size])


def check_crc(buffer: Buffer, header: BatchHeader) -> None:
    """Raises CorruptBatch unless the batch, which must be complete, has the CRC in its header."""
    position = header.position
    computed = crc32c(memoryview(buffer)[position + CRC_COVERS_FROM : position + header.size])
    if computed != header.crc:
        raise CorruptBatch(f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})")


def patch_offset_and_epoch(
    buffer: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int
) -> None:
    """Sets base offset and leader epoch in the buffer and in the header. The CRC covers neither field."""
    _OFFSET_LENGTH_EPOCH.pack_into(buffer, header.position, base_offset, header.batch_length, leader_epoch)
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch


def patch_append_time(buffer: bytearray | memoryview, header: BatchHeader, timestamp: int) -> None:
    """Sets the timestamp of all records: with LogAppendTime the records' own timestamps are ignored."""
    header.attributes |= ATTRIBUTE_APPEND_TIME
    _patch_time(buffer, header, timestamp)


def patch_create_time(buffer: bytearray | memoryview, header: BatchHeader, max_timestamp: int) -> None:
    """Sets the type to CreateTime, with the records' max timestamp."""
    header.attributes &= ~ATTRIBUTE_APPEND_TIME
    _patch_time(buffer, header, max_timestamp)


def _patch_time(buffer: bytearray | memoryview, header: BatchHeader, max_timestamp: int) -> None:
    position = header.position
    header.max_timestamp = max_timestamp
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, header.attributes)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    header.crc = compute_crc(buffer, header)
    _CRC.pack_into(buffer, position + CRC_AT, header.crc)


def pack_header(header: BatchHeader) -> bytes:
    """The encoded header, with its CRC unchanged."""
    return _HEADER.pack(
        header.base_offset,
        header.batch_length,
        header.leader_epoch,
        header.magic,
        header.crc,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
