"""A histogram of durations, with quantiles of the last minutes.

Bucket widths grow by at most an eighth, from a quarter of a microsecond to days. An observation costs a few attribute
accesses; quantiles are computed on demand. The histogram must not read a clock.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import nan
from typing import Final

UNITS_PER_SECOND: Final = 4_000_000
_FIRST: Final = 8
"""Added to every duration, so that its four highest bits identify the bucket."""
BUCKETS: Final = 8 * 42 + 16
WINDOWS_MAX: Final = 5


class Histogram:
    """`mark` is called once a minute; quantiles cover the last `WINDOWS_MAX` minutes."""

    __slots__ = ("_marks", "counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts: Final = [0] * BUCKETS
        self.sum_seconds = 0.0
        # The counts at the last marks, the oldest first.
        self._marks: Final[deque[list[int]]] = deque(maxlen=WINDOWS_MAX)

    def observe(self, seconds: float, times: int = 1) -> None:
        units = int(seconds * UNITS_PER_SECOND) + _FIRST
        length = units.bit_length()
        self.counts[(length << 3) + (units >> length - 4)] += times
        self.sum_seconds += seconds * times

    def mark(self) -> None:
        self._marks.append(self.counts.copy())

    @property
    def count(self) -> int:
        return sum(self.counts)

    def recent(self) -> list[int]:
        """The counts of the last minutes, by bucket."""
        if len(self._marks) < WINDOWS_MAX:
            return self.counts
        return [now - then for now, then in zip(self.counts, self._marks[0], strict=True)]


def quantiles(histograms: Iterable[Histogram], wanted: Sequence[float]) -> list[float]:
    """In seconds, of all histograms together; NaN without observations in the last minutes."""
    totals = list(accumulate(map(sum, zip(*(one.recent() for one in histograms), strict=True))))
    count = totals[-1]
    if not count:
        return [nan] * len(wanted)
    found = []
    for quantile in wanted:
        rank = min(count - 1, int(quantile * count))
        found.append(_middle(next(bucket for bucket, total in enumerate(totals) if total > rank)))
    return found


def _middle(bucket: int) -> float:
    """The middle of a bucket's durations."""
    length, highest = divmod(bucket - 8, 8)
    lowest = (highest + 8) << length - 4
    width = 1 << length - 4
    return max(0.0, lowest + width / 2 - _FIRST - 0.5) / UNITS_PER_SECOND
