"""Which keys weigh most in a partition: a sketch of a few dozen entries, whatever the number of keys.

A key that makes up more than one in `CAPACITY` of what was seen is in it (the Space-Saving algorithm). What was seen
fades: after `FADE_SECONDS` it counts for half.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

CAPACITY: Final = 32
FADE_SECONDS: Final = 60.0
KEY_BYTES_MAX: Final = 128
"""Longer keys are told by their beginning."""
# Below this an entry says nothing any more.
_FORGOTTEN: Final = 0.01

Key = bytes | None


class Seen(NamedTuple):
    """A record that was looked at."""

    key: Key
    size: int
    stands_for: float
    """So many records, itself included."""


class Share(NamedTuple):
    key: Key
    share: float
    """Of everything, at most: a key that came late takes over what the one it replaced had."""


class HeavyKeys:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity: Final = capacity
        self._weights: dict[Key, float] = {}
        self.total = 0.0
        """Everything, whether or not its key is among those known here."""

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
        self._weights = {key: faded for key, weight in self._weights.items() if (faded := weight * factor) > _FORGOTTEN}

    def top(self, count: int) -> list[Share]:
        """The heaviest first."""
        if not self._weights:
            return []
        heaviest = sorted(self._weights.items(), key=lambda one: -one[1])[:count]
        return [Share(key, weight / self.total) for key, weight in heaviest]


class KeySketch:
    """Of one partition."""

    def __init__(self) -> None:
        self.by_records: Final = HeavyKeys()
        self.by_bytes: Final = HeavyKeys()

    def add(self, records: Iterable[Seen]) -> None:
        for key, size, stands_for in records:
            self.by_records.add(key, stands_for)
            self.by_bytes.add(key, stands_for * size)

    def fade(self, seconds: float) -> None:
        """So much time has passed."""
        factor = 0.5 ** (seconds / FADE_SECONDS)
        self.by_records.fade(factor)
        self.by_bytes.fade(factor)

    @property
    def is_empty(self) -> bool:
        return not self.by_records.top(1)
