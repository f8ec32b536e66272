"""How the record of a member says that it does not speak the classic protocol.

Kafka takes a record that says nothing of it for one of a member that does, with empty metadata. So the structure that
is not there has to be written as such, which the general form of tagged structures has no way for.
"""

from typing import Final

_NOTHING: Final = b"\x00"
_ABSENT: Final = b"\x01\x00\x01\x00"
"""One tagged field, number 0, of one byte: there is no structure."""
_TIMEOUT_SIZE: Final = 4


def mark_absent(encoded: bytearray) -> None:
    """Of a value that ends without tagged fields."""
    encoded[-1:] = _ABSENT


def unmark_absent(encoded: bytes, position: int) -> bytes:
    """The value, whose fields begin at `position`, as the general form has it."""
    if not encoded.endswith(_ABSENT):
        return encoded
    # Metadata that is there may end with the same bytes by chance: the fields in front are passed over one by one.
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
