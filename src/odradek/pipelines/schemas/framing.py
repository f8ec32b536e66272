"""The framing of schema registries: a zero byte, a four-byte schema ID, the payload.

A Protobuf payload starts with the message index: a count and that many positions, as zigzag varints. Pure.
"""

from typing import Final

from odradek.pipelines.schemas.schema import Undecodable

# IDs are signed in Java clients, so registries assign no higher ones.
ID_MAX: Final = 2**31 - 1
_MAGIC: Final = 0
_PREFIX_BYTES: Final = 5
_LEVELS_MAX: Final = 100


def schema_id_of(data: bytes) -> int | None:
    """Return None if the data is not framed."""
    if len(data) < _PREFIX_BYTES or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:_PREFIX_BYTES], "big")


def payload_of(data: bytes) -> bytes:
    return data[_PREFIX_BYTES:]


def message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Return the message index of a Protobuf payload, and the rest. A single 0 means the first message."""
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
