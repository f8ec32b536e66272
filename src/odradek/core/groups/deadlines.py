"""Deadlines by key, of which most are moved on again and again before they come.

A heartbeat moves its member's deadline: that costs a dictionary's entry, and the heap is put right when the former
deadline has come. Deadlines that come at the same time are met in the order in which they were set.
"""

import heapq
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    def __init__(self) -> None:
        self._set: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._queued: dict[K, int] = {}
        """The earliest time at which the heap will ask for a key; never later than its deadline."""
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
        """One whose time has come, no longer set."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._set[key]
        self._queued.pop(key, None)
        return key

    def _settle(self) -> None:
        """The first of the heap is a deadline as it is set now."""
        while self._heap:
            at_ms, count, key = self._heap[0]
            wanted = self._set.get(key)
            if wanted == (at_ms, count):
                return
            heapq.heappop(self._heap)
            if self._queued.get(key) == at_ms:
                del self._queued[key]
            if wanted is not None and key not in self._queued:
                self._queued[key] = wanted[0]
                heapq.heappush(self._heap, (*wanted, key))
