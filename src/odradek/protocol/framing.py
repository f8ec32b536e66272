"""Bytes in, frames out: Kafka's four-byte length prefix, with the limit checked before anything is kept."""

import struct
from typing import Final

_LENGTH: Final = struct.Struct(">i")


class InvalidFrame(Exception):
    """The peer's length prefix is negative or over the limit: the connection cannot go on."""


class FrameReader:
    """Collects one connection's bytes. Holds at most one unfinished frame and what arrived behind it."""

    __slots__ = ("_chunks", "_held", "_limit", "_wanted")

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._chunks: list[bytes] = []
        self._held = 0
        # Bytes needed before the next step is possible: the prefix first, then prefix and frame.
        self._wanted = 4

    @property
    def held_bytes(self) -> int:
        return self._held

    def receive(self, data: bytes) -> list[bytearray]:
        """The frames that `data` completes, without their prefixes, each in memory of its own that may be patched."""
        if self._held:
            self._chunks.append(data)
            self._held += len(data)
            if self._held < self._wanted:
                return []
            joined: bytes | bytearray = bytearray().join(self._chunks)
            self._chunks.clear()
            self._held = 0
            self._wanted = 4
        else:
            joined = data
        return self._cut(joined)

    def _cut(self, joined: bytes | bytearray) -> list[bytearray]:
        frames: list[bytearray] = []
        while len(joined) >= 4:
            (length,) = _LENGTH.unpack_from(joined)
            if length < 0 or length > self._limit:
                raise InvalidFrame(f"a request of {length} bytes, where socket.request.max.bytes is {self._limit}")
            end = 4 + length
            if end > len(joined):
                self._wanted = end
                break
            rest = joined[end:]
            if isinstance(joined, bytearray):
                # A frame of many chunks is large: it is trimmed where it stands, not copied once more.
                del joined[end:]
                del joined[:4]
                frames.append(joined)
            else:
                frames.append(bytearray(memoryview(joined)[4:end]))
            joined = bytes(rest)
        if joined:
            self._chunks.append(bytes(joined))
            self._held = len(joined)
        return frames
