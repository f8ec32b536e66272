"""Kafka's five codecs, compatible with the Java clients. It handles bytes, not records.

Decompression output is bounded while it is produced, and no memory is allocated from a declared size: a few bytes from
a client can declare gigabytes. Output is filled and copied in pieces, so that it does not hold the GIL for long.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from mmap import mmap
from struct import Struct

import cramjam
from typing_extensions import Buffer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import CorruptBatch

# The maximum decompressed size of one batch: far above `max.message.bytes` with a common ratio, and small enough that
# decompressing one batch at a time is safe.
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024

GZIP_DEFAULT_LEVEL = -1
LZ4_DEFAULT_LEVEL = 9
ZSTD_DEFAULT_LEVEL = 3

_USUAL_RATIO = 4
_SMALLEST_OUTPUT_BYTES = 4 * 1024
# Larger output uses anonymous memory, which the system allocates page by page as it is written.
_SMALL_OUTPUT_BYTES = 1024 * 1024
_INPUT_PIECE_BYTES = 64 * 1024
_OUTPUT_PIECE_BYTES = 256 * 1024
_GZIP_WINDOW_BITS = 31
# The error of Rust's standard library if a fixed output slice is full, as cramjam returns it.
_OUTPUT_FULL = "failed to write whole buffer"

_INT32_BE = Struct(">i")
_UINT32_LE = Struct("<I")

# snappy-java's stream format: magic, version 1, compatible with 1, then blocks with length prefixes.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + _INT32_BE.pack(1) + _INT32_BE.pack(1)
_XERIAL_BLOCK_BYTES = 32 * 1024
# A snappy element of 3 bytes copies at most 64: a block that declares a higher ratio is invalid.
_SNAPPY_HIGHEST_RATIO = 22

# Magic, flags (version 1, independent blocks), 64 KiB blocks, and the descriptor's checksum. Java clients cannot read
# frames with linked blocks, the default of LZ4 libraries.
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED_FLAG = 0x80000000
_LZ4_END_MARK = bytes(4)


class Compression(IntEnum):
    """The codec numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> "Compression":
        """The codec of a `compression.type`. Raises KeyError for anything else, including `producer`."""
        return cls[name.upper()]


class DecompressionTooLarge(KafkaError):
    """The output exceeds the bound. A client that receives MESSAGE_TOO_LARGE splits the batch and retries."""

    def __init__(self, max_output_bytes: int) -> None:
        super().__init__(
            ErrorCode.message_too_large, f"Records take more than {max_output_bytes} bytes when decompressed"
        )


class DecompressionFailed(CorruptBatch):
    """The codec cannot read the bytes although the CRC is right. Kafka gives clients no details either."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = ErrorCode.unknown_server_error


class UnknownCompression(DecompressionFailed):
    def __init__(self, number: int) -> None:
        super().__init__(f"Unknown compression type id: {number}")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Level None means Kafka's default. Snappy has no levels."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            compressor = zlib.compressobj(GZIP_DEFAULT_LEVEL if level is None else level, wbits=_GZIP_WINDOW_BITS)
            return compressor.compress(data) + compressor.flush()
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, LZ4_DEFAULT_LEVEL if level is None else level)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=ZSTD_DEFAULT_LEVEL if level is None else level))
        case _:
            raise UnknownCompression(codec)


def decompress(codec: int, data: Buffer, max_output_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """Raises DecompressionFailed if the codec cannot read the data, DecompressionTooLarge above the bound.

    Uncompressed data is returned unchanged at any size, because it needs no more memory.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, max_output_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, max_output_bytes)
        case Compression.LZ4 | Compression.ZSTD:
            return _decompress_into(codec, data, max_output_bytes)
        case _:
            raise UnknownCompression(codec)


def _new_output(size: int) -> bytearray | mmap:
    return bytearray(size) if size <= _SMALL_OUTPUT_BYTES else mmap(-1, size)


class _Output:
    """Collects output in pieces up to a bound, and returns it as one buffer."""

    __slots__ = ("_bytes_max", "_large", "_size", "_small")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._small = bytearray()
        self._large: bytearray | mmap | None = None

    def add(self, piece: bytes) -> None:
        size = self._size + len(piece)
        if size > self._bytes_max:
            raise DecompressionTooLarge(self._bytes_max)
        if size <= _SMALL_OUTPUT_BYTES:
            self._small += piece
        else:
            if self._large is None:
                self._large = _new_output(self._bytes_max)
                self._large[: self._size] = self._small
            self._large[self._size : size] = piece
        self._size = size

    def whole(self) -> memoryview:
        return memoryview(self._small if self._large is None else self._large)[: self._size]


def _decompress_gzip(data: Buffer, max_output_bytes: int) -> Buffer:
    view = memoryview(data).cast("B")
    output = _Output(max_output_bytes)
    position, end = 0, view.nbytes
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        while position < end:
            pending: Buffer = view[position : position + _INPUT_PIECE_BYTES]
            position = min(position + _INPUT_PIECE_BYTES, end)
            full = True
            while full and not member.eof:
                piece = member.decompress(pending, _OUTPUT_PIECE_BYTES)
                output.add(piece)
                pending = member.unconsumed_tail
                full = len(piece) == _OUTPUT_PIECE_BYTES
            if member.eof:
                position -= len(member.unused_data)
                if position == end:
                    return output.whole()
                # A stream may contain several members.
                member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    except zlib.error as error:
        raise DecompressionFailed(f"gzip: {error}") from error
    raise DecompressionFailed("gzip stream ended prematurely")


def _decompress_into(codec: int, data: Buffer, max_output_bytes: int) -> Buffer:
    """Tries a usual output size first, then the maximum, of which only written pages use memory."""
    library = cramjam.lz4 if codec == Compression.LZ4 else cramjam.zstd
    with memoryview(data) as view:
        expected = max(view.nbytes * _USUAL_RATIO, _SMALLEST_OUTPUT_BYTES)
    size = min(expected if expected <= _SMALL_OUTPUT_BYTES else max_output_bytes, max_output_bytes)
    while True:
        output = _new_output(size)
        try:
            written = library.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise DecompressionFailed(f"{Compression(codec).name.lower()}: {error}") from error
            if size >= max_output_bytes:
                raise DecompressionTooLarge(max_output_bytes) from error
            size = max_output_bytes
        else:
            return memoryview(output)[:written]


def _decompress_snappy(data: Buffer, max_output_bytes: int) -> Buffer:
    """snappy-java's stream format, or a raw snappy block, which librdkafka sends."""
    view = memoryview(data).cast("B")
    is_stream = view[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC
    blocks = list(_xerial_blocks(view)) if is_stream else [view]
    sizes = [_declared_size(block) for block in blocks]
    total = sum(sizes)
    if total > max_output_bytes:
        raise DecompressionTooLarge(max_output_bytes)
    output = memoryview(_new_output(total))
    position = 0
    try:
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, output[position : position + size])
            position += size
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(f"snappy: {error}") from error
    return output


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    position, end = 0, view.nbytes
    while position < end:
        # Concatenated streams repeat the header.
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > end:
                raise DecompressionFailed("snappy: the stream ends within its header")
            continue
        if end - position < _INT32_BE.size:
            raise DecompressionFailed("snappy: the stream ends within a block's length")
        (block_bytes,) = _INT32_BE.unpack_from(view, position)
        position += _INT32_BE.size
        if not 0 < block_bytes <= end - position:
            raise DecompressionFailed(f"snappy: a block of {block_bytes} bytes where {end - position} are left")
        yield view[position : position + block_bytes]
        position += block_bytes


def _declared_size(block: memoryview) -> int:
    try:
        declared_bytes: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(f"snappy: {error}") from error
    if declared_bytes > block.nbytes * _SNAPPY_HIGHEST_RATIO:
        raise DecompressionFailed(f"snappy: a block of {block.nbytes} bytes cannot hold {declared_bytes}")
    return declared_bytes


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data).cast("B")
    pieces = [_XERIAL_HEADER]
    for start in range(0, view.nbytes, _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_INT32_BE.pack(len(block)), block)
    return b"".join(pieces)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    view = memoryview(data).cast("B")
    pieces = [_LZ4_FRAME_HEADER]
    for start in range(0, view.nbytes, _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = _compress_lz4_block(plain, level)
        if len(block) < plain.nbytes:
            pieces += (_UINT32_LE.pack(len(block)), block)
        else:
            pieces += (_UINT32_LE.pack(plain.nbytes | _LZ4_STORED_FLAG), bytes(plain))
    pieces.append(_LZ4_END_MARK)
    return b"".join(pieces)


def _compress_lz4_block(plain: memoryview, level: int) -> bytes:
    """Like Kafka: the default level uses the fast compressor, every other level the high compressor."""
    if level == LZ4_DEFAULT_LEVEL:
        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    return bytes(cramjam.lz4.compress_block(plain, store_size=False, mode="high_compression", compression=level))
