"""A job's progress: offsets by partition, rate, lag and remaining time. Pure; the clock is a parameter."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from odradek.base.ids import TopicPartition

# Rates cover the last batches, because the first one is slow while Java warms up.
_BATCHES_REMEMBERED: Final = 8


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    partition: int
    offset: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress in this run. The lag is in offsets."""

    batches: int
    rows: int
    dead_letters: int
    rows_per_second: float | None
    seconds_left: float | None
    partitions: tuple[PartitionProgress, ...]
    left_out: int = 0
    """Records that were dropped on purpose."""

    @property
    def lag(self) -> int:
        return sum(one.lag for one in self.partitions)

    def to_json(self) -> dict[str, Any]:
        return {
            "batches": self.batches,
            "rows": self.rows,
            "dead_letters": self.dead_letters,
            "left_out": self.left_out,
            "rows_per_second": None if self.rows_per_second is None else round(self.rows_per_second, 1),
            "lag": self.lag,
            "seconds_left": None if self.seconds_left is None else round(self.seconds_left, 1),
            "partitions": [
                {"partition": one.partition, "offset": one.offset, "end": one.end, "lag": one.lag}
                for one in self.partitions
            ],
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Progress":
        return cls(
            batches=form["batches"],
            rows=form["rows"],
            dead_letters=form["dead_letters"],
            rows_per_second=form["rows_per_second"],
            seconds_left=form["seconds_left"],
            partitions=tuple(
                PartitionProgress(one["partition"], one["offset"], one["end"]) for one in form["partitions"]
            ),
            left_out=form.get("left_out", 0),
        )


class Pace:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        # The end time of a batch and the total records by then.
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)], maxlen=_BATCHES_REMEMBERED + 1)
        self._batches = self._rows = self._dead_letters = self._left_out = 0

    def add(self, *, rows: int, dead_letters: int = 0, left_out: int = 0) -> None:
        """Add a finished batch."""
        self._batches += 1
        self._rows += rows
        self._dead_letters += dead_letters
        self._left_out += left_out
        self._marks.append((self._clock(), self._rows + self._dead_letters + self._left_out))

    def progress(self, reached: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int]) -> Progress:
        partitions = tuple(
            PartitionProgress(one.partition, reached.get(one, 0), end) for one, end in sorted(target.items())
        )
        (first_at, first), (last_at, last) = self._marks[0], self._marks[-1]
        rate = (last - first) / (last_at - first_at) if last > first and last_at > first_at else None
        lag = sum(one.lag for one in partitions)
        return Progress(
            batches=self._batches,
            rows=self._rows,
            dead_letters=self._dead_letters,
            rows_per_second=rate,
            seconds_left=None if rate is None else lag / rate,
            partitions=partitions,
            left_out=self._left_out,
        )
