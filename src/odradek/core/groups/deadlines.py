"""Deadlines by key, most of which are postponed again and again before they expire.

A heartbeat postpones the session deadline of its member: that changes one dictionary entry, and the heap is corrected
when the former deadline expires. Deadlines with the same time expire in the order in which they were set.
"""

import heapq
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    def __init__(self) -> None:
        self._set: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._queued: dict[K, int] = {}
        """The earliest entry of a key in the heap; never later than its deadline."""
        self._count = 0

    def set(self, key: K, at_ms: int) -> None:
        self._count += 1
        self._set[key] = (at_ms, self._count)
        if self._queued.get(key, at_ms + 1) > at_ms:
            self._queued[key] = at_ms
            heapq.heappush(self._heap, (at_ms, self._count, key))

    def cancel(self, key: K) -> None:
        self._set.pop(key, None)

    def is_set(self, key: K) -> bool:
        return key in self._set

    def next_at(self) -> int | None:
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> K | None:
        """Removes and returns an expired key."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._set[key]
        self._queued.pop(key, None)
        return key

    def _settle(self) -> None:
        """Corrects the heap until its first entry is a current deadline."""
        while self._heap:
            at_ms, count, key = self._heap[0]
            current = self._set.get(key)
            if current == (at_ms, count):
                return
            heapq.heappop(self._heap)
            if self._queued.get(key) == at_ms:
                del self._queued[key]
            if current is not None and key not in self._queued:
                self._queued[key] = current[0]
                heapq.heappush(self._heap, (*current, key))
