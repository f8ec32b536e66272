"""Splits offsets into tasks and limits them per trigger. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from odradek.base.ids import TopicPartition

P = TypeVar("P")

# The minimum size of a task.
TASK_OFFSETS_MIN = 65_536
# A task's size may vary by this fraction to align it with a file.
_NEAR_SHARE = 4


class OffsetRange(NamedTuple):
    """`end` is exclusive."""

    partition: TopicPartition
    topic_id: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)


def split_ranges(
    ranges: Sequence[OffsetRange],
    *,
    tasks_min: int | None = None,
    records_max: int | None = None,
    cores: int = 1,
    edges: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> list[OffsetRange]:
    """Split the ranges into tasks, without empty ranges.

    `tasks_min` is minPartitions and `records_max` is maxRecordsPerPartition. By default, large partitions are split so
    that all cores have work. `edges` are preferred split points: the starts and ends of files.
    """
    edges = edges or {}
    left = [one for one in ranges if one.size]
    if records_max is not None:
        left = [piece for one in left for piece in _split(one, -(-one.size // records_max), ())]
    if tasks_min is None:
        tasks_min = min(cores, sum(one.size for one in left) // TASK_OFFSETS_MIN)
    if tasks_min <= len(left):
        return left
    total = sum(one.size for one in left)
    return [
        piece
        for one in left
        for piece in _split(one, max(round(one.size / total * tasks_min), 1), edges.get(one.partition, ()))
    ]


def _split(whole: OffsetRange, pieces: int, better: Sequence[int]) -> list[OffsetRange]:
    pieces = min(pieces, whole.size)
    near = whole.size // pieces // _NEAR_SHARE
    bounds = [whole.start]
    for number in range(1, pieces):
        even = whole.start + whole.size * number // pieces
        best = min(better, key=lambda edge: abs(edge - even), default=even)
        bounds.append(best if abs(best - even) <= near else even)
    bounds.append(whole.end)
    return [whole._replace(start=start, end=end) for start, end in pairwise(bounds)]


def limit_offsets(starts: Mapping[P, int], ends: Mapping[P, int], offsets_max: int) -> dict[P, int]:
    """Limit the ends to `offsets_max` offsets in total, proportional to the sizes.

    Every partition with records gets at least one offset, so that none starves.
    """
    sizes = {one: max(end - starts[one], 0) for one, end in ends.items()}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(ends)
    return {
        one: starts[one] + min(max(size * offsets_max // total, 1), size) if size else ends[one]
        for one, size in sizes.items()
    }
