"""A mapping that never changes: every change gives a new one that shares nearly everything with the old.

Entries live in buckets, plain dicts, chosen by a hash that is the same in every process, so that two runs of one
history iterate in one order. A change copies the list of buckets and the buckets it touches. With the number of
buckets kept near the square root of the number of entries, one change among a million costs tens of microseconds,
and a lookup one index more than a dict's.
"""

from collections.abc import Iterable, Iterator, Mapping, ValuesView
from typing import TypeVar
from zlib import crc32

K = TypeVar("K")
V = TypeVar("V")

_BUCKET_SIZE_TO_COUNT = 4
"""A map grows when its buckets would hold more than this many times as many entries as there are buckets."""


def _stable_hash(key: object) -> int:
    if type(key) is str:
        return crc32(key.encode())
    if isinstance(key, tuple):
        return sum(_stable_hash(part) for part in key)
    return hash(key)


class _Values(ValuesView[V]):
    """Iterates without looking up each key."""

    _mapping: "PersistentMap[object, V]"

    def __iter__(self) -> Iterator[V]:
        for bucket in self._mapping._buckets:
            yield from bucket.values()


class PersistentMap(Mapping[K, V]):
    __slots__ = ("_buckets", "_mask", "_size")

    def __init__(self, entries: Iterable[tuple[K, V]] = ()) -> None:
        self._buckets: list[dict[K, V]] = [dict(entries)]
        self._mask = 0
        self._size = len(self._buckets[0])
        if self._is_crowded():
            self._spread()

    def __getitem__(self, key: K) -> V:
        return self._buckets[_stable_hash(key) & self._mask if self._mask else 0][key]

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[_stable_hash(key) & self._mask if self._mask else 0]

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket

    def __len__(self) -> int:
        return self._size

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"

    def with_changes(self, entries: Mapping[K, V], removed: Iterable[K] = ()) -> "PersistentMap[K, V]":
        """With `entries` put in and `removed` taken out, in cost proportional to what changes."""
        new: PersistentMap[K, V] = PersistentMap()
        buckets = new._buckets = list(self._buckets)
        mask = new._mask = self._mask
        size = self._size
        copied: set[int] = set()

        def bucket_of(key: K) -> dict[K, V]:
            index = _stable_hash(key) & mask
            if index not in copied:
                copied.add(index)
                buckets[index] = buckets[index].copy()
            return buckets[index]

        for key in removed:
            bucket = bucket_of(key)
            if key in bucket:
                del bucket[key]
                size -= 1
        for key, value in entries.items():
            bucket = bucket_of(key)
            size += key not in bucket
            bucket[key] = value
        new._size = size
        if new._is_crowded():
            new._spread()
        return new

    def keys_that_may_differ(self, former: "PersistentMap[K, V]") -> Iterator[K]:
        """All keys whose entries differ, or exist in one of the maps only, and some others.

        Costs little if this map has evolved from `former` by few changes.
        """
        if len(self._buckets) != len(former._buckets):
            yield from dict.fromkeys((*self, *former))
            return
        for bucket, former_bucket in zip(self._buckets, former._buckets, strict=True):
            if bucket is not former_bucket:
                yield from bucket.keys() | former_bucket.keys()

    def _is_crowded(self) -> bool:
        return self._size > _BUCKET_SIZE_TO_COUNT * 16 and self._size > _BUCKET_SIZE_TO_COUNT * len(self._buckets) ** 2

    def _spread(self) -> None:
        count = len(self._buckets)
        while _BUCKET_SIZE_TO_COUNT * count**2 < self._size:
            count *= 2
        # One doubling more than needed: growing entry by entry redistributes everything only each fourfold.
        count *= 2
        buckets: list[dict[K, V]] = [{} for _ in range(count)]
        for key, value in self.items():
            buckets[_stable_hash(key) & (count - 1)][key] = value
        self._buckets = buckets
        self._mask = count - 1
