"""The readers of a topic, met by how many partitions they have while these change.

Whoever is met from below gets one partition more, whoever is met from above gives one away, so that the ranges of
equals at either end grow towards the middle, each walked over again and again.
"""

from collections.abc import Sequence


class LoadOrder:
    def __init__(self, loads: Sequence[int], readers: Sequence[int]) -> None:
        """`loads` by reader; the caller changes it as it moves partitions."""
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
        """None if nobody is left that has something to give."""
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
        """The one met last from above has nothing to give."""
        met, last = self._next_most + 1, self._most_end - 1
        self._order[met], self._order[last] = self._order[last], self._order[met]
        self._most_end -= 1

    def _load(self, place: int) -> int:
        return self._loads[self._order[place]]
