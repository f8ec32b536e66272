"""The order in which Kafka walks over hash maps of names and of ids.

Where Kafka takes the first that it meets, a leader or a protocol among equals, the same one is taken here, so that the
same history leads to the same group on either.
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
    """Names that fall into the same place stay in the order given, the one in which they were added."""
    return min(names, key=lambda name: _place(name, table_size))


def names_in_hash_order(names: Collection[str], count_at_once: int = 0) -> list[str]:
    """As of a map that has grown with them, or with the more that it has held before."""
    size = table_size_for(max(len(names), count_at_once))
    return sorted(names, key=lambda name: _place(name, size))


def in_timeline_order(names: Reversible[str], table_size: int) -> list[str]:
    """As of the tables that Kafka's coordinators keep, whose places are the highest bits of another product, and
    which meet last what came first of those that fall into the same place."""
    shift = 65 - table_size.bit_length()
    latest_first = list(reversed(names))
    return sorted(latest_first, key=lambda name: (_signed_code(name) * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> shift)


def uuids_in_hash_order(uuids: Collection[UUID]) -> list[UUID]:
    """As of a set made from another at once, whose table is large enough for it from the beginning."""
    size = _SMALLEST_TABLE
    while size < int(len(uuids) / 0.75) + 1:
        size *= 2
    return sorted(uuids, key=lambda one: (_place_of_code(_uuid_code(one), size), one.int))


def table_size_for(count: int) -> int:
    """Of a table that has held so many at once: it grows when three quarters are taken, and never shrinks."""
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
