"""Frames come out whole however the bytes arrive, and a length over the limit is refused before it is believed."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.framing import FrameReader, InvalidFrame


def _prefixed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(min_value=1, max_value=30), min_size=1))
def test_any_cut_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(_prefixed, payloads))
    reader = FrameReader(limit=100)
    frames: list[bytes] = []
    position = step = 0
    while position < len(stream):
        size = cuts[step % len(cuts)]
        frames += map(bytes, reader.receive(stream[position : position + size]))
        position += size
        step += 1
    assert frames == payloads
    assert reader.held_bytes == 0


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_a_length_out_of_bounds_is_refused_at_once(length: int) -> None:
    with pytest.raises(InvalidFrame):
        FrameReader(limit=100).receive(struct.pack(">i", length))


def test_frames_do_not_share_memory() -> None:
    first, second = FrameReader(limit=100).receive(_prefixed(b"one") + _prefixed(b"two"))
    first[0] = 0
    assert second == b"two"
