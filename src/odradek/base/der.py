"""Reads DER, the encoding of certificates: as much of it as names need. The input is hostile."""

from collections.abc import Iterator
from typing import Final, NamedTuple

_LENGTH_BYTES_MAX: Final = 4


class InvalidDer(ValueError):
    pass


class DerValue(NamedTuple):
    tag: int
    content: memoryview
    encoded: memoryview
    """Tag, length and content."""


def read_der(data: memoryview) -> tuple[DerValue, memoryview]:
    """The first value, and what follows it."""
    if len(data) < 2:
        raise InvalidDer("truncated DER")
    tag, size, start = data[0], data[1], 2
    if tag & 0x1F == 0x1F:
        raise InvalidDer("unsupported DER tag")
    if size & 0x80:
        count = size & 0x7F
        start += count
        if not 1 <= count <= _LENGTH_BYTES_MAX or len(data) < start:
            raise InvalidDer("invalid DER length")
        size = int.from_bytes(data[2:start], "big")
    end = start + size
    if end > len(data):
        raise InvalidDer("truncated DER")
    return DerValue(tag, data[start:end], data[:end]), data[end:]


def read_all_der(data: memoryview) -> Iterator[DerValue]:
    while data:
        value, data = read_der(data)
        yield value


def read_oid(content: memoryview) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if number >> 128:
            raise InvalidDer("object identifier too large")
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] & 0x80:
        raise InvalidDer("invalid object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
