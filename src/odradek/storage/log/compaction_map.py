"""From keys to the last offset at which each was written, in bounded memory: what compaction compares records with.

A key is known by 16 bytes of a keyed hash. The hash key is drawn anew for every pass, so that nobody can write two keys
that are taken for one, which would make the newer record erase the older one's key.
"""

from hashlib import blake2b
from typing import Any, Protocol

from odradek.records.walk import RecordColumns, Walk

NO_OFFSET = -1
# 16 bytes of hash and 8 of offset.
_COMPILED_ENTRY_BYTES = 24
# A dictionary's entry with its key and value.
_PLAIN_ENTRY_BYTES = 200
_SMALLEST_SLOTS = 1024


class OffsetMap(Protocol):
    # No record above this offset is known to the map.
    latest_offset: int

    @property
    def entries(self) -> int: ...

    @property
    def utilization(self) -> float: ...

    def put(self, payload: memoryview, columns: RecordColumns, base_offset: int, from_offset: int) -> bool:
        """Takes in the keyed records from `from_offset` on. False as soon as the map is full: the rest is not in it."""

    def flag_retained(
        self, payload: memoryview, columns: RecordColumns, base_offset: int, keep_tombstones: bool
    ) -> None:
        """Flags the rows that stay: records above the map's latest offset, and the last one of each key.

        A record without a key never stays; the last record of a key that is a tombstone does if `keep_tombstones`.
        """


def new_offset_map(
    walk: Walk, *, memory_bytes: int, load_factor: float, offset_span: int, hash_key: bytes
) -> OffsetMap:
    """`offset_span` is how many offsets there are to put in at most: a small log gets a small map."""
    if not walk.is_compiled:
        return PlainOffsetMap(int(memory_bytes // _PLAIN_ENTRY_BYTES * load_factor), hash_key)
    slots = min(memory_bytes // _COMPILED_ENTRY_BYTES, max(int(offset_span / load_factor) + 1, _SMALLEST_SLOTS))
    return CompiledOffsetMap(walk, slots, int(slots * load_factor), hash_key)


class PlainOffsetMap:
    def __init__(self, entries_max: int, hash_key: bytes) -> None:
        self._entries_max = max(entries_max, 1)
        self._hash_key = hash_key
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = NO_OFFSET

    @property
    def entries(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        return len(self._offsets) / self._entries_max

    def put(self, payload: memoryview, columns: RecordColumns, base_offset: int, from_offset: int) -> bool:
        offsets, entries_max = self._offsets, self._entries_max
        for row in range(columns.count):
            offset = base_offset + columns.offset_deltas[row]
            if columns.key_lengths[row] < 0 or offset < from_offset:
                continue
            if len(offsets) >= entries_max:
                return False
            offsets[self._hash(payload, columns, row)] = offset
            self.latest_offset = offset
        return True

    def flag_retained(
        self, payload: memoryview, columns: RecordColumns, base_offset: int, keep_tombstones: bool
    ) -> None:
        flags, offsets = columns.flags, self._offsets
        for row in range(columns.count):
            offset = base_offset + columns.offset_deltas[row]
            if offset > self.latest_offset:
                flags[row] = 1
            elif columns.key_lengths[row] < 0 or (columns.value_lengths[row] < 0 and not keep_tombstones):
                flags[row] = 0
            else:
                flags[row] = offset >= offsets.get(self._hash(payload, columns, row), NO_OFFSET)

    def _hash(self, payload: memoryview, columns: RecordColumns, row: int) -> bytes:
        start = columns.key_starts[row]
        return blake2b(payload[start : start + columns.key_lengths[row]], digest_size=16, key=self._hash_key).digest()


class CompiledOffsetMap:
    """An open-addressing table in flat arrays; the loops over it are compiled, and release the interpreter's lock."""

    def __init__(self, walk: Walk, slots: int, entries_max: int, hash_key: bytes) -> None:
        # Needs numba, which a compiled walk proves to be there.
        import numpy

        from odradek.storage.log import compaction_kernels

        self._put_keys: Any = compaction_kernels.put_keys
        self._flag_retained: Any = compaction_kernels.flag_retained
        self._as_array = walk.as_array
        self._entries_max = max(min(entries_max, slots - 1), 1)
        self._key = numpy.frombuffer(hash_key, "<u8")
        self._high = numpy.zeros(slots, numpy.uint64)
        self._low = numpy.zeros(slots, numpy.uint64)
        # An offset and one more: zero is an empty slot.
        self._offsets = numpy.zeros(slots, numpy.int64)
        self._slots = slots
        self.entries = 0
        self.latest_offset = NO_OFFSET

    @property
    def utilization(self) -> float:
        return self.entries / self._entries_max

    def put(self, payload: memoryview, columns: RecordColumns, base_offset: int, from_offset: int) -> bool:
        entries, latest_offset, complete = self._put_keys(
            *self._common_arguments(payload, columns, base_offset),
            from_offset,
            self.entries,
            self._entries_max,
            self.latest_offset,
        )
        self.entries, self.latest_offset = int(entries), int(latest_offset)
        return bool(complete)

    def flag_retained(
        self, payload: memoryview, columns: RecordColumns, base_offset: int, keep_tombstones: bool
    ) -> None:
        self._flag_retained(
            *self._common_arguments(payload, columns, base_offset),
            columns.value_lengths,
            self.latest_offset,
            keep_tombstones,
            columns.flags,
        )

    def _common_arguments(self, payload: memoryview, columns: RecordColumns, base_offset: int) -> tuple[Any, ...]:
        return (
            self._high,
            self._low,
            self._offsets,
            self._key,
            self._as_array(payload),
            columns.count,
            columns.offset_deltas,
            columns.key_starts,
            columns.key_lengths,
            base_offset,
        )
