"""Splitting a stream into frames, and rejecting lengths above the limit."""

import random
import struct
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire import framing
from odradek.wire.framing import FrameReader


def _prefixed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(min_value=1, max_value=30), min_size=1))
def test_frames_do_not_depend_on_how_the_bytes_are_split(payloads: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(map(_prefixed, payloads))
    reader = FrameReader(limit=100)
    frames: list[bytes] = []
    position = step = 0
    while position < len(stream):
        size = sizes[step % len(sizes)]
        frames += map(bytes, reader.receive(stream[position : position + size]))
        position += size
        step += 1
    assert frames == payloads
    assert reader.held_bytes == 0


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_invalid_frame_length_is_rejected_at_once(length: int) -> None:
    reader = FrameReader(limit=100)
    # What came before it is a request like any other.
    assert reader.receive(_prefixed(b"whole") + struct.pack(">i", length)) == [b"whole"]
    assert reader.failure is not None
    assert str(length) in reader.failure


def test_frames_do_not_share_memory() -> None:
    first, second = FrameReader(limit=100).receive(_prefixed(b"one") + _prefixed(b"two"))
    first[0] = 0
    assert second == b"two"


def test_bytes_received_one_by_one_need_no_extra_memory() -> None:
    reader = FrameReader(limit=1 << 20)
    tracemalloc.start()
    try:
        for byte in struct.pack(">i", 200_000) + bytes(150_000):
            assert reader.receive(bytes((byte,))) == []
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Without the memory that other threads allocated.
    here = taken.filter_traces([tracemalloc.Filter(True, framing.__file__)])
    held = sum(trace.size for trace in here.traces)
    assert reader.held_bytes == 150_004
    assert held > 100_000
    assert held < 200_000


def test_thousands_of_frames_in_one_read_are_split_quickly() -> None:
    many = _prefixed(b"ten bytes!") * 18_000
    began = time.process_time()
    assert len(FrameReader(limit=100).receive(many)) == 18_000
    # Copying the rest for each of them would take half a second.
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize("piece_bytes", [1000, 100_000, 3_000_000])
def test_large_frame_is_kept_in_memory_only_once(piece_bytes: int) -> None:
    payload = random.Random(1).randbytes(5_000_000)
    stream = _prefixed(payload) + _prefixed(b"next")
    reader = FrameReader(limit=10_000_000)
    tracemalloc.start()
    try:
        frames = []
        for position in range(0, len(stream), piece_bytes):
            frames += reader.receive(stream[position : position + piece_bytes])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert frames == [payload, b"next"]
    # The frame, its spare capacity, and one piece.
    assert peak < 1.2 * len(payload) + 2 * piece_bytes
