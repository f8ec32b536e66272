"""Kafka's five codecs, as its Java clients write and read them. Knows bytes, not records.

Output of a decompression is bounded while it is produced, and no memory is taken because the input declares a size:
a few bytes from a client can ask for gigabytes.
"""

import zlib
from enum import IntEnum
from struct import Struct

import cramjam
from typing_extensions import Buffer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import CorruptBatch

# What one batch may grow to when it is opened. Far above what `max.message.bytes` and a common ratio give, and little
# enough that opening one batch at a time never endangers the process.
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024

GZIP_DEFAULT_LEVEL = -1
LZ4_DEFAULT_LEVEL = 9
ZSTD_DEFAULT_LEVEL = 3

_SMALLEST_OUTPUT = 4 * 1024
_GROWTH = 4
_GZIP_WINDOW_BITS = 31
# What Rust's standard library says when a fixed output slice is full; cramjam passes it on.
_OUTPUT_FULL = "failed to write whole buffer"

_INT32_BE = Struct(">i")
_UINT32_LE = Struct("<I")

# snappy-java's stream format: magic, version 1, compatible with 1, then blocks behind their lengths.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + _INT32_BE.pack(1) + _INT32_BE.pack(1)
_XERIAL_BLOCK_BYTES = 32 * 1024
# A snappy element of 3 bytes copies at most 64: a block that declares more than this ratio lies.
_SNAPPY_HIGHEST_RATIO = 22

# Magic, flags (version 1, independent blocks), 64 KiB blocks, and the descriptor's checksum. Java clients read no
# frames with linked blocks, which is what LZ4 libraries write unless told otherwise.
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED_FLAG = 0x80000000
_LZ4_END_MARK = bytes(4)


class Compression(IntEnum):
    """The codec's number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> "Compression":
        """The codec that `compression.type` names. Raises KeyError on anything else, `producer` included."""
        return cls[name.upper()]


class DecompressionTooLarge(KafkaError):
    """The batch grows beyond the bound. A client that hears MESSAGE_TOO_LARGE splits the batch and tries again."""

    def __init__(self, max_output_bytes: int) -> None:
        super().__init__(
            ErrorCode.message_too_large, f"Records take more than {max_output_bytes} bytes when decompressed"
        )


class DecompressionFailed(CorruptBatch):
    """The codec cannot read the bytes, although the batch has the right CRC. Kafka tells a client no more than this."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = ErrorCode.unknown_server_error


class UnknownCompression(DecompressionFailed):
    def __init__(self, number: int) -> None:
        super().__init__(f"Unknown compression type id: {number}")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Level None: what Kafka takes by default. Snappy has no levels."""
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
    """Raises DecompressionFailed on what the codec cannot read, DecompressionTooLarge beyond the bound.

    Uncompressed data is returned as it is, whatever its size: it takes no memory beyond its own.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, max_output_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, max_output_bytes)
        case Compression.LZ4 | Compression.ZSTD:
            return _decompress_into_growing(codec, data, max_output_bytes)
        case _:
            raise UnknownCompression(codec)


def _decompress_gzip(data: Buffer, max_output_bytes: int) -> Buffer:
    pieces: list[bytes] = []
    left_bytes = max_output_bytes
    pending: Buffer = data
    try:
        while True:  # one gzip member each; a stream may hold several
            member = zlib.decompressobj(_GZIP_WINDOW_BITS)
            # One byte more than allowed tells a full output from one that is too large.
            piece = member.decompress(pending, left_bytes + 1)
            if len(piece) > left_bytes:
                raise DecompressionTooLarge(max_output_bytes)
            left_bytes -= len(piece)
            pieces.append(piece)
            if not member.eof:
                raise DecompressionFailed("gzip stream ended prematurely")
            if not member.unused_data:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pending = member.unused_data
    except zlib.error as error:
        raise DecompressionFailed(f"gzip: {error}") from error


def _decompress_into_growing(codec: int, data: Buffer, max_output_bytes: int) -> Buffer:
    """Tries outputs of growing size: the whole costs at most a third more than the last try."""
    library = cramjam.lz4 if codec == Compression.LZ4 else cramjam.zstd
    with memoryview(data) as view:
        size = min(max(view.nbytes * _GROWTH, _SMALLEST_OUTPUT), max_output_bytes)
    while True:
        output = bytearray(size)
        try:
            written = library.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise DecompressionFailed(f"{Compression(codec).name.lower()}: {error}") from error
            if size >= max_output_bytes:
                raise DecompressionTooLarge(max_output_bytes) from error
            size = min(size * _GROWTH, max_output_bytes)
        else:
            return memoryview(output)[:written]


def _decompress_snappy(data: Buffer, max_output_bytes: int) -> Buffer:
    """snappy-java's stream, or one bare snappy block, which is what librdkafka sends."""
    view = memoryview(data).cast("B")
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_output_bytes, max_output_bytes)
    pieces: list[Buffer] = []
    left_bytes = max_output_bytes
    position, end = 0, view.nbytes
    while position < end:
        # The header may come again: streams that were concatenated.
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
        block = view[position : position + block_bytes]
        piece = _decompress_snappy_block(block, left_bytes, max_output_bytes)
        left_bytes -= len(piece)
        pieces.append(piece)
        position += block_bytes
    return b"".join(pieces)


def _decompress_snappy_block(block: memoryview, left_bytes: int, max_output_bytes: int) -> bytearray:
    try:
        declared_bytes = cramjam.snappy.decompress_raw_len(block)
        if declared_bytes > block.nbytes * _SNAPPY_HIGHEST_RATIO:
            raise DecompressionFailed(f"snappy: a block of {block.nbytes} bytes cannot hold {declared_bytes}")
        if declared_bytes > left_bytes:
            raise DecompressionTooLarge(max_output_bytes)
        output = bytearray(declared_bytes)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(f"snappy: {error}") from error
    return output


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
    """As Kafka: the default level means the fast compressor, every other one the thorough compressor."""
    if level == LZ4_DEFAULT_LEVEL:
        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    return bytes(cramjam.lz4.compress_block(plain, store_size=False, mode="high_compression", compression=level))
