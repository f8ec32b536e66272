"""Unsigned varints: seven bits per byte, least significant first, in at most five bytes."""

from kio.serial.errors import SerialError


class InvalidVarint(SerialError):
    pass


def read_unsigned_varint(buffer: bytes | bytearray | memoryview, offset: int) -> tuple[int, int]:
    """The value and the offset after it. Raises InvalidVarint past the end or over five bytes."""
    value = shift = 0
    limit = min(len(buffer), offset + 5)
    while offset < limit:
        byte = buffer[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
    raise InvalidVarint("varint longer than five bytes or truncated")


def write_unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    append_unsigned_varint(out, value)
    return bytes(out)


def append_unsigned_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
