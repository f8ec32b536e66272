"""The subscribers of a topic in the order of their number of partitions, while the numbers change.

The least loaded subscriber gets a partition and the most loaded one loses one, so that the ranges of equal load at both
ends grow towards the middle; each range is traversed again and again.
"""

from collections.abc import Sequence


class LoadOrder:
    def __init__(self, loads: Sequence[int], readers: Sequence[int]) -> None:
        """`loads` by subscriber; the caller changes it with every reassignment."""
        self._loads = loads
        self._order = sorted(readers, key=lambda reader: (loads[reader], reader))
        self._least = loads[self._order[0]] - 1
        self._least_end = 0
        self._next_least = 0
        self._most = loads[self._order[-1]] + 1
        self._most_start = self._most_end = len(self._order)
        self._next_most = len(self._order) - 1
        self.spread = loads[self._order[-1]] - loads[self._order[0]]

    def is_balanced(self) -> bool:
        return self._most - self._least <= 1

    def next_least(self) -> int:
        if self._next_least >= self._least_end:
            self._least += 1
            while self._least_end < len(self._order) and self._load(self._least_end) == self._least:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._order[self._next_least - 1]

    def next_most(self) -> int | None:
        """None if no subscriber has a partition to lose."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most = self._load(self._most_start - 1)
            else:
                self._most -= 1
            while self._most_start > 0 and self._load(self._most_start - 1) == self._most:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._order[self._next_most + 1]

    def exclude_most(self) -> None:
        """The subscriber that `next_most` returned last has no partition to lose."""
        met, last = self._next_most + 1, self._most_end - 1
        self._order[met], self._order[last] = self._order[last], self._order[met]
        self._most_end -= 1

    def _load(self, place: int) -> int:
        return self._loads[self._order[place]]
