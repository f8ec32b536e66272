"""Finds the most frequent keys in bounded memory. Pure.

This is the Misra-Gries summary: if there are more keys than places, all counts are reduced by the same amount, which
`missed` adds up. Every key with more than `missed` records is present, and its count is at most `missed` too low.
Summaries can be merged in any order.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

# Longer keys are replaced by their beginning and a hash.
KEY_BYTES_MAX: Final = 200
_SHOWN_BYTES: Final = 100


class HeavyKeys:
    def __init__(self, places: int, counts: Mapping[bytes, int] | None = None, missed: int = 0) -> None:
        self._places: Final = places
        self.counts: dict[bytes, int] = dict(counts or {})
        self.missed = missed

    def add(self, keys: Any) -> None:
        """Add a column of non-null keys."""
        if not len(keys):
            return
        found = pc.value_counts(_short(keys))
        counts = found.field("counts").to_numpy(zero_copy_only=False)
        if len(counts) > self._places:
            # Reduce the batch in numpy first, so that only frequent keys become Python objects.
            lowered = int(np.partition(counts, -self._places - 1)[-self._places - 1])
            kept = np.flatnonzero(counts > lowered)
            self.missed += lowered
            found, counts = found.take(pa.array(kept)), counts[kept] - lowered
        self._merge(dict(zip(found.field("values").to_pylist(), counts.tolist(), strict=True)))

    def merge(self, other: "HeavyKeys") -> None:
        self.missed += other.missed
        self._merge(other.counts)

    def top(self, count: int) -> list[tuple[bytes, int]]:
        return sorted(self.counts.items(), key=lambda one: (-one[1], one[0]))[:count]

    def _merge(self, counts: Mapping[bytes, int]) -> None:
        for key, count in counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        if len(self.counts) > self._places:
            lowered = sorted(self.counts.values(), reverse=True)[self._places]
            self.missed += lowered
            self.counts = {key: count - lowered for key, count in self.counts.items() if count > lowered}


def _short(keys: Any) -> Any:
    if pc.max(pc.binary_length(keys)).as_py() <= KEY_BYTES_MAX:
        return keys
    return pa.array([_shorten_key(one) if len(one) > KEY_BYTES_MAX else one for one in keys.to_pylist()], pa.binary())


def _shorten_key(key: bytes) -> bytes:
    return key[:_SHOWN_BYTES] + b"..." + xxhash.xxh3_128_hexdigest(key).encode()
