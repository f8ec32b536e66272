"""Marks the record of a member that does not use the classic protocol.

Kafka reads a record without this mark as that of a classic member with empty metadata. So the missing structure has to
be written as null, which the general codec of tagged structures does not support.
"""

from typing import Final

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
    for _ in ("instance", "rack", "client", "host"):
        position = _after_string(encoded, position)
    count, position = _varint(encoded, position)
    if count > len(encoded):
        return encoded
    for _ in range(count - 1):
        position = _after_string(encoded, position)
    position = _after_string(encoded, position) + _TIMEOUT_SIZE
    position = _after_string(encoded, position)
    return encoded[:position] + _NOTHING if encoded[position:] == _ABSENT else encoded


def _after_string(encoded: bytes, position: int) -> int:
    length, position = _varint(encoded, position)
    return position + max(length - 1, 0)


def _varint(encoded: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(encoded):
        byte = encoded[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, position
