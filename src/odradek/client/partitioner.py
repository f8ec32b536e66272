"""Chooses the partition of a key as Kafka's Java client does, so that all clients agree on it."""

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash as an unsigned number."""
    length = len(data)
    digest = (_SEED ^ length) & _MASK
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ (word >> 24)) * _MULTIPLIER & _MASK
        digest = digest * _MULTIPLIER & _MASK ^ word
    if length > whole:
        digest ^= int.from_bytes(data[whole:], "little")
        digest = digest * _MULTIPLIER & _MASK
    digest = (digest ^ (digest >> 13)) * _MULTIPLIER & _MASK
    return digest ^ (digest >> 15)


def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
