"""Collects changes of an immutable mapping until they become a new mapping."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from odradek.core.metadata.persistent_map import PersistentMap

K = TypeVar("K")
V = TypeVar("V")


class KeyedChanges(Generic[K, V]):
    __slots__ = ("_base", "_put", "_removed")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._put: dict[K, V] = {}
        self._removed: dict[K, None] = {}

    @property
    def keys(self) -> tuple[K, ...]:
        """The changed keys."""
        return (*self._put, *self._removed)

    def get(self, key: K) -> V | None:
        if key in self._removed:
            return None
        return self._put[key] if key in self._put else self._base.get(key)

    def put(self, key: K, value: V) -> None:
        self._removed.pop(key, None)
        self._put[key] = value

    def remove(self, key: K) -> None:
        self._put.pop(key, None)
        if key in self._base:
            self._removed[key] = None

    def put_or_remove(self, key: K, value: V) -> None:
        """An empty value removes the key."""
        if value:
            self.put(key, value)
        else:
            self.remove(key)

    def result(self) -> Mapping[K, V]:
        """A full copy, for small mappings."""
        if not self._put and not self._removed:
            return self._base
        return {key: value for key, value in self._base.items() if key not in self._removed} | self._put

    def persistent_result(self, base: PersistentMap[K, V]) -> PersistentMap[K, V]:
        if not self._put and not self._removed:
            return base
        return base.with_changes(self._put, self._removed)
