"""Marks the record of a member that does not use the classic protocol.

Kafka reads a record without this mark as that of a classic member with empty metadata. So the missing structure has to
be written as null, which the general codec of tagged structures does not support.
"""

from typing import Final

from kio.serial.errors import SerialError

from odradek.base.varints import read_unsigned_varint

_NOTHING: Final = b"\x00"
_ABSENT: Final = b"\x01\x00\x01\x00"
"""One tagged field, number 0, of one byte: a null structure."""
_TIMEOUT_SIZE: Final = 4


def mark_absent(encoded: bytearray) -> None:
    """The end of a value without tagged fields."""
    encoded[-1:] = _ABSENT


def unmark_absent(encoded: bytes, position: int) -> bytes:
    """The value, whose fields start at `position`, for the general codec."""
    if not encoded.endswith(_ABSENT):
        return encoded
    # Other metadata may end with the same bytes, so that the fields before it are skipped one by one.
    try:
        for _ in ("instance", "rack", "client", "host"):
            position = _after_string(encoded, position)
        count, position = read_unsigned_varint(encoded, position)
        # No more topics than bytes: a varint past the end raises.
        for _ in range(count - 1):
            position = _after_string(encoded, position)
        position = _after_string(encoded, position) + _TIMEOUT_SIZE
        position = _after_string(encoded, position)
    except SerialError:
        # The general codec rejects it.
        return encoded
    return encoded[:position] + _NOTHING if encoded[position:] == _ABSENT else encoded


def _after_string(encoded: bytes, position: int) -> int:
    length, position = read_unsigned_varint(encoded, position)
    return position + max(length - 1, 0)
