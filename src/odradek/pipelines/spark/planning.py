"""Which offsets a task reads, and how many a trigger takes. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from odradek.base.ids import TopicPartition

P = TypeVar("P")

# A smaller share is not worth a task of its own.
TASK_OFFSETS_MIN = 65_536
# A task may be larger or smaller by this part of it to begin with a file.
_NEAR_SHARE = 4


class OffsetRange(NamedTuple):
    """From `start`, up to `end` and without it."""

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
    """Cuts the ranges into what tasks read, empty ones left out.

    `tasks_min` is the number asked for (minPartitions), `records_max` the most that one may have
    (maxRecordsPerPartition). If nothing was asked for, a large partition is cut for all cores to have a share.
    `edges`: where a partition is best cut, if that is near: where files begin and end.
    """
    edges = edges or {}
    left = [one for one in ranges if one.size]
    if records_max is not None:
        left = [piece for one in left for piece in _cut(one, -(-one.size // records_max), ())]
    if tasks_min is None:
        tasks_min = min(cores, sum(one.size for one in left) // TASK_OFFSETS_MIN)
    if tasks_min <= len(left):
        return left
    total = sum(one.size for one in left)
    return [
        piece
        for one in left
        for piece in _cut(one, max(round(one.size / total * tasks_min), 1), edges.get(one.partition, ()))
    ]


def _cut(whole: OffsetRange, pieces: int, better: Sequence[int]) -> list[OffsetRange]:
    pieces = min(pieces, whole.size)
    near = whole.size // pieces // _NEAR_SHARE
    cuts = [whole.start]
    for number in range(1, pieces):
        even = whole.start + whole.size * number // pieces
        best = min(better, key=lambda edge: abs(edge - even), default=even)
        cuts.append(best if abs(best - even) <= near else even)
    cuts.append(whole.end)
    return [whole._replace(start=start, end=end) for start, end in pairwise(cuts)]


def limit_offsets(starts: Mapping[P, int], ends: Mapping[P, int], offsets_max: int) -> dict[P, int]:
    """Ends at most so far behind the starts that all together are `offsets_max` offsets; shares follow the amounts.

    Every partition that has something gets something, so that none waits for ever: with more partitions than
    `offsets_max` it is one each.
    """
    sizes = {one: max(end - starts[one], 0) for one, end in ends.items()}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(ends)
    return {
        one: starts[one] + min(max(size * offsets_max // total, 1), size) if size else ends[one]
        for one, size in sizes.items()
    }
