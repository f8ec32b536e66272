"""The iteration order of Kafka's hash maps of names and ids.

Where Kafka takes the first entry of a hash map, such as a leader or a protocol among equals, this takes the same one,
so that the same requests lead to the same group.
"""

from collections.abc import Collection, Iterable, Reversible
from functools import lru_cache
from typing import Final
from uuid import UUID

from odradek.base.java_hash import string_hash

_SMALLEST_TABLE: Final = 16
_CODES_KEPT: Final = 8_192
_FIBONACCI: Final = -7046029254386353131


def first_in_hash_order(names: Iterable[str], table_size: int = _SMALLEST_TABLE) -> str:
    """Names in the same bucket keep the order in which they were added."""
    return min(names, key=lambda name: _place(name, table_size))


def names_in_hash_order(names: Collection[str], count_at_once: int = 0) -> list[str]:
    """The order of a map that has grown with them, or with the larger number that it held before."""
    size = table_size_for(max(len(names), count_at_once))
    return sorted(names, key=lambda name: _place(name, size))


def in_timeline_order(names: Reversible[str], table_size: int) -> list[str]:
    """The order of Kafka's timeline tables: the highest bits of another product select the bucket, and entries of the
    same bucket are in reverse order."""
    shift = 65 - table_size.bit_length()
    latest_first = list(reversed(names))
    return sorted(latest_first, key=lambda name: (_signed_code(name) * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> shift)


def uuids_in_hash_order(uuids: Collection[UUID]) -> list[UUID]:
    """The order of a set that was copied from another, with a table of the final size."""
    size = _SMALLEST_TABLE
    while size < int(len(uuids) / 0.75) + 1:
        size *= 2
    return sorted(uuids, key=lambda one: (_place_of_code(_uuid_code(one), size), one.int))


def table_size_for(count: int) -> int:
    """The size of a table that has held this number of entries: it grows at three quarters, and never shrinks."""
    size = _SMALLEST_TABLE
    while count * 4 > size * 3:
        size *= 2
    return size


def _place(name: str, table_size: int) -> int:
    return _place_of_code(_code(name), table_size)


@lru_cache(_CODES_KEPT)
def _code(name: str) -> int:
    return string_hash(name)


def _signed_code(name: str) -> int:
    code = _code(name)
    return code - (1 << 32) if code >> 31 else code


def _uuid_code(uuid: UUID) -> int:
    halves = uuid.int >> 64 ^ uuid.int & 0xFFFFFFFFFFFFFFFF
    return halves >> 32 ^ halves & 0xFFFFFFFF


def _place_of_code(code: int, table_size: int) -> int:
    return (code ^ code >> 16) & (table_size - 1)
