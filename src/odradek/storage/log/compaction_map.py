"""The offset map of compaction: from keys to the last offset of each, in bounded memory.

A key is identified by 16 bytes of a keyed hash. Every pass draws a new hash key, so that a client cannot construct two
keys with the same hash, one of which would delete the other.
"""

from hashlib import blake2b
from typing import Any, Protocol

from odradek.records.walk import RecordColumns, Walk

NO_OFFSET = -1
# 16 bytes for the hash and 8 for the offset.
_COMPILED_ENTRY_BYTES = 24
# A dictionary entry with its key and value.
_PLAIN_ENTRY_BYTES = 200
_SMALLEST_SLOTS = 1024


class OffsetMap(Protocol):
    # The map has no record above this offset.
    latest_offset: int

    @property
    def entries(self) -> int: ...

    @property
    def utilization(self) -> float: ...

    def put(self, payload: memoryview, columns: RecordColumns, base_offset: int, from_offset: int) -> bool:
        """Adds the keyed records from `from_offset` on. False as soon as the map is full; the rest is not added."""

    def flag_retained(
        self, payload: memoryview, columns: RecordColumns, base_offset: int, keep_tombstones: bool
    ) -> None:
        """Flags the retained rows: records above the map's latest offset, and the last record of each key.

        Records without a key are never retained; a tombstone that is the last record of its key only if
        `keep_tombstones`.
        """


def new_offset_map(
    walk: Walk, *, memory_bytes: int, load_factor: float, offset_span: int, hash_key: bytes
) -> OffsetMap:
    """`offset_span` is the maximum number of offsets to add: a small log gets a small map."""
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
    """An open-addressing table in flat arrays; the compiled loops release the GIL."""

    def __init__(self, walk: Walk, slots: int, entries_max: int, hash_key: bytes) -> None:
        # Needs numba: a compiled walk shows that it is installed.
        import numpy

        from odradek.storage.log import compaction_kernels

        self._put_keys: Any = compaction_kernels.put_keys
        self._flag_retained: Any = compaction_kernels.flag_retained
        self._as_array = walk.as_array
        self._entries_max = max(min(entries_max, slots - 1), 1)
        self._key = numpy.frombuffer(hash_key, "<u8")
        self._high = numpy.zeros(slots, numpy.uint64)
        self._low = numpy.zeros(slots, numpy.uint64)
        # Offset plus one: zero marks an empty slot.
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
