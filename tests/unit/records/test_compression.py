"""Codecs: round trips, and malicious input neither crashes nor uses much memory."""

import contextlib
import gzip
import os
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode
from odradek.records.batch import CorruptBatch
from odradek.records.compression import Compression, DecompressionTooLarge, UnknownCompression, compress, decompress

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
LEVELS = {Compression.GZIP: [-1, 1, 9], Compression.LZ4: [1, 9, 12, 17], Compression.ZSTD: [-7, 1, 3, 22]}
SAMPLES = [b"", b"x", b"abc" * 50_000, os.urandom(100_000), os.urandom(70_000) + bytes(70_000)]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_round_trip(codec: Compression, data: bytes) -> None:
    for level in [None, *LEVELS.get(codec, [])]:
        assert bytes(memoryview(decompress(codec, compress(codec, data, level)))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_bound_is_exact(codec: Compression) -> None:
    data = b"0123456789" * 20_000
    packed = compress(codec, data)
    assert bytes(memoryview(decompress(codec, packed, len(data)))) == data
    with pytest.raises(DecompressionTooLarge) as refusal:
        decompress(codec, packed, len(data) - 1)
    assert refusal.value.code is ErrorCode.message_too_large


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_bomb_uses_bounded_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionTooLarge):
            decompress(codec, bomb, 1024 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_input_is_rejected(codec: Compression) -> None:
    data = os.urandom(300) + b"pattern" * 40
    packed = compress(codec, data)
    for size in range(len(packed)):
        try:
            output = bytes(memoryview(decompress(codec, packed[:size])))
        except CorruptBatch:
            continue
        # Only snappy-java's stream has no end mark: truncated between blocks it is a shorter valid stream.
        assert codec is Compression.SNAPPY and data.startswith(output)


@pytest.mark.parametrize("codec", CODECS)
@given(noise=st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_random_input_never_crashes(codec: Compression, noise: bytes) -> None:
    for data in (noise, compress(codec, b"a sentence, a sentence, a sentence")[:12] + noise):
        with contextlib.suppress(CorruptBatch, DecompressionTooLarge):
            decompress(codec, data, 1 << 20)


def test_unknown_codec_is_rejected() -> None:
    for number in (5, 6, 7):
        with pytest.raises(UnknownCompression):
            decompress(number, b"")
        with pytest.raises(UnknownCompression):
            compress(number, b"")


def test_codec_names_match_compression_type() -> None:
    assert [Compression.from_name(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(Compression)
    for name in ("producer", "uncompressed", ""):
        with pytest.raises(KeyError):
            Compression.from_name(name)


class TestSnappy:
    def test_snappy_framing_matches_snappy_java(self) -> None:
        packed = compress(Compression.SNAPPY, bytes(40_000))
        assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
        first = int.from_bytes(packed[16:20], "big")
        assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + first]) == 32 * 1024

    def test_raw_snappy_block_is_read(self) -> None:
        assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"bare" * 100))) == b"bare" * 100

    def test_concatenated_streams_are_read(self) -> None:
        packed = compress(Compression.SNAPPY, b"one ") + compress(Compression.SNAPPY, b"two")
        assert decompress(Compression.SNAPPY, packed) == b"one two"

    @pytest.mark.parametrize("bare", [True, False])
    def test_declared_size_allocates_nothing(self, bare: bool) -> None:
        block = b"\xff\xff\xff\xff\x07" + b"\x00a"  # declares 2 GiB
        packed = block if bare else compress(Compression.SNAPPY, b"")[:16] + len(block).to_bytes(4, "big") + block
        tracemalloc.start()
        try:
            with pytest.raises(CorruptBatch):
                decompress(Compression.SNAPPY, packed, 1 << 32)
            assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("length", [-1, 0, 100, 2**31 - 1])
    def test_block_length_beyond_the_stream_is_rejected(self, length: int) -> None:
        header = compress(Compression.SNAPPY, b"")
        with pytest.raises(CorruptBatch):
            decompress(Compression.SNAPPY, header + length.to_bytes(4, "big", signed=True) + b"abc")


class TestLz4:
    def test_blocks_are_independent_and_of_64_kib(self) -> None:
        assert compress(Compression.LZ4, b"").startswith(bytes.fromhex("04224d18604082"))

    def test_linked_blocks_are_read(self) -> None:
        data = b"linked blocks " * 30_000
        assert bytes(memoryview(decompress(Compression.LZ4, bytes(cramjam.lz4.compress(data))))) == data

    def test_incompressible_blocks_are_stored(self) -> None:
        noise = os.urandom(65_536)
        packed = compress(Compression.LZ4, noise)
        assert packed[7:11] == (0x80000000 | 65_536).to_bytes(4, "little")
        assert packed[11:-4] == noise


def test_gzip_streams_of_several_members_are_read() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, packed) == b"one two"
    with pytest.raises(DecompressionTooLarge):
        decompress(Compression.GZIP, packed, 6)
