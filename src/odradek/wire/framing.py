"""Bytes in, frames out: splits a stream at Kafka's four-byte length prefixes, and checks the limit first."""

import struct
from typing import Final

_LENGTH: Final = struct.Struct(">i")
_PREFIX_BYTES: Final = 4
# Smaller pieces are appended to a buffer: an object per byte of a slow sender would cost fifty bytes each.
_SMALL_PIECE_BYTES: Final = 4096
# A larger frame is kept in one buffer while it grows: joining it at the end would block the event loop and need twice
# the memory.
_LARGE_FRAME_BYTES: Final = 1 << 20


class FrameReader:
    """Collects the bytes of one connection. Keeps at most one incomplete frame."""

    __slots__ = ("_held", "_pieces", "_wanted", "failure", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Of the frames that begin from now on."""
        self._pieces: list[bytes | bytearray] = []
        self._held = 0
        # Bytes needed for the next step: first the prefix, then prefix and frame.
        self._wanted = _PREFIX_BYTES
        self.failure: str | None = None
        """Why no more frames are read: the announced length is negative or above the limit."""

    @property
    def held_bytes(self) -> int:
        return self._held

    def receive(self, data: bytes) -> list[bytearray]:
        """The frames that `data` completes, without their prefixes. Each has its own mutable memory."""
        if not self._held:
            if len(data) > _PREFIX_BYTES:
                (length,) = _LENGTH.unpack_from(data)
                if length == len(data) - _PREFIX_BYTES <= self.limit:
                    # Exactly one frame: the most frequent case.
                    frame = bytearray(data)
                    del frame[:_PREFIX_BYTES]
                    return [frame]
            return self._split(data)
        self._held += len(data)
        if self._held < self._wanted:
            self._keep(data)
            return []
        self._keep(data)
        joined = self._join()
        self._pieces.clear()
        self._held = 0
        if self._wanted == _PREFIX_BYTES:
            return self._split(bytes(joined))
        # A frame of many pieces is large: it is trimmed in place, without another copy.
        rest = bytes(joined[self._wanted :])
        del joined[self._wanted :]
        del joined[:_PREFIX_BYTES]
        return [joined, *self._split(rest)]

    def _keep(self, data: bytes) -> None:
        last = self._pieces[-1]
        small = len(data) < _SMALL_PIECE_BYTES
        if isinstance(last, bytearray) and (small or len(last) >= _LARGE_FRAME_BYTES):
            last += data
        else:
            self._pieces.append(bytearray(data) if small else data)
        if self._held >= _LARGE_FRAME_BYTES and len(self._pieces) > 1:
            self._pieces = [self._join()]

    def _join(self) -> bytearray:
        first = self._pieces[0]
        return first if isinstance(first, bytearray) and len(self._pieces) == 1 else bytearray().join(self._pieces)

    def _split(self, data: bytes) -> list[bytearray]:
        frames: list[bytearray] = []
        position = 0
        end = len(data)
        wanted = _PREFIX_BYTES
        while end - position >= _PREFIX_BYTES:
            (length,) = _LENGTH.unpack_from(data, position)
            if length < 0 or length > self.limit:
                self.failure = f"a request of {length} bytes exceeds socket.request.max.bytes ({self.limit})"
                return frames
            wanted = _PREFIX_BYTES + length
            if wanted > end - position:
                break
            frames.append(bytearray(memoryview(data)[position + _PREFIX_BYTES : position + wanted]))
            position += wanted
            wanted = _PREFIX_BYTES
        if position < end:
            self._pieces.append(data[position:])
            self._held = end - position
        self._wanted = wanted
        return frames
