"""The framing of schema registries: a zero, four bytes of a schema's id, the payload.

A payload of Protobuf begins with the way to its message: zigzag varints, a count and so many places. Pure.
"""

from typing import Final

from odradek.pipelines.schemas.schema import Undecodable

# Java's clients take ids for signed: no registry gives out higher ones.
ID_MAX: Final = 2**31 - 1
_MAGIC: Final = 0
_PREFIX_BYTES: Final = 5
_LEVELS_MAX: Final = 100


def schema_id_of(data: bytes) -> int | None:
    """None: the bytes are not framed."""
    if len(data) < _PREFIX_BYTES or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:_PREFIX_BYTES], "big")


def payload_of(data: bytes) -> bytes:
    return data[_PREFIX_BYTES:]


def message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Which message of its schema a payload of Protobuf is, and the message. A single 0 means the first."""
    count, at = _varint(payload, 0)
    if not 0 <= count <= _LEVELS_MAX:
        raise Undecodable(f"invalid message index with {count} levels")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return indexes or [0], payload[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise Undecodable("incomplete message index")
