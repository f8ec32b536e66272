"""Hot keys of a partition: a sketch with a few dozen entries, for any number of keys.

It contains every key with a share of more than one in `CAPACITY` (the Space-Saving algorithm). Weights decay: after
`FADE_SECONDS` a record counts half.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

CAPACITY: Final = 32
FADE_SECONDS: Final = 60.0
KEY_BYTES_MAX: Final = 128
"""Longer keys are truncated."""
# Entries below this are dropped.
_WEIGHT_MIN: Final = 0.01

Key = bytes | None


class Seen(NamedTuple):
    """A sampled record."""

    key: Key
    size: int
    stands_for: float
    """The number of records that it represents, itself included."""


class Share(NamedTuple):
    key: Key
    share: float
    """An upper bound: a new key inherits the weight of the key that it replaces."""


class HeavyKeys:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity: Final = capacity
        self._weights: dict[Key, float] = {}
        self.total = 0.0
        """The weight of all keys, including those without an entry."""

    def add(self, key: Key, weight: float) -> None:
        self.total += weight
        weights = self._weights
        if key in weights:
            weights[key] += weight
        elif len(weights) < self._capacity:
            weights[key] = weight
        else:
            least = min(weights, key=weights.__getitem__)
            weights[key] = weights.pop(least) + weight

    def fade(self, factor: float) -> None:
        self.total *= factor
        self._weights = {
            key: faded for key, weight in self._weights.items() if (faded := weight * factor) > _WEIGHT_MIN
        }

    def top(self, count: int) -> list[Share]:
        """The heaviest first."""
        if not self._weights:
            return []
        heaviest = sorted(self._weights.items(), key=lambda one: -one[1])[:count]
        return [Share(key, weight / self.total) for key, weight in heaviest]


class KeySketch:
    """The hot keys of one partition, by records and by bytes."""

    def __init__(self) -> None:
        self.by_records: Final = HeavyKeys()
        self.by_bytes: Final = HeavyKeys()

    def add(self, records: Iterable[Seen]) -> None:
        for key, size, stands_for in records:
            self.by_records.add(key, stands_for)
            self.by_bytes.add(key, stands_for * size)

    def fade(self, seconds: float) -> None:
        """Decays the weights by the time that has passed."""
        factor = 0.5 ** (seconds / FADE_SECONDS)
        self.by_records.fade(factor)
        self.by_bytes.fade(factor)

    @property
    def is_empty(self) -> bool:
        return not self.by_records.top(1)
