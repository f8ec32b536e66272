"""The order in which Kafka walks over hash maps of names and of ids.

Where Kafka takes the first that it meets, a leader or a protocol among equals, the same one is taken here, so that the
same history leads to the same group on either.
"""

from collections.abc import Collection, Iterable
from typing import Final
from uuid import UUID

_SMALLEST_TABLE: Final = 16


def first_in_hash_order(names: Iterable[str], table_size: int = _SMALLEST_TABLE) -> str:
    """Names that fall into the same place stay in the order given, the one in which they were added."""
    return min(names, key=lambda name: _place(name, table_size))


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
    code = 0
    encoded = name.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        code = (code * 31 + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return _place_of_code(code, table_size)


def _uuid_code(uuid: UUID) -> int:
    halves = uuid.int >> 64 ^ uuid.int & 0xFFFFFFFFFFFFFFFF
    return halves >> 32 ^ halves & 0xFFFFFFFF


def _place_of_code(code: int, table_size: int) -> int:
    return (code ^ code >> 16) & (table_size - 1)
