"""Offsets are split into tasks and triggers without gaps, overlaps or starved partitions."""

from random import Random

import pytest

from odradek.base.ids import TopicPartition
from odradek.pipelines.spark.planning import TASK_OFFSETS_MIN, OffsetRange, limit_offsets, split_ranges


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), "", 1_000, 1_000 + size) for number, size in enumerate(sizes)]


def test_one_hot_partition_uses_all_cores() -> None:
    hot = ranges(10_000_000, 10, 0)

    assert [one.size for one in split_ranges(hot, cores=4)] == [2_500_000] * 4 + [10]
    assert [one.size for one in split_ranges(ranges(TASK_OFFSETS_MIN), cores=4)] == [TASK_OFFSETS_MIN]
    assert [one.size for one in split_ranges(ranges(7), tasks_min=100)] == [1] * 7
    assert split_ranges(ranges(0, 0), tasks_min=3) == []


@pytest.mark.parametrize("seed", range(20))
def test_the_pieces_are_the_whole(seed: int) -> None:
    random = Random(seed)
    whole = ranges(*(random.randrange(0, 10 ** random.randrange(1, 7)) for _ in range(random.randrange(1, 8))))
    tasks_min, records_max = random.choice([None, 1, 7, 40]), random.choice([None, 10_000, 123_456])

    pieces = split_ranges(whole, tasks_min=tasks_min, records_max=records_max, cores=8)

    for one in whole:
        of_one = [piece for piece in pieces if piece.partition == one.partition]
        edges = [one.start, *(piece.end for piece in of_one)]
        assert [piece.start for piece in of_one] == edges[:-1]
        assert edges[-1] == one.end
        assert all(piece.size for piece in of_one)
    if records_max:
        assert all(piece.size <= records_max for piece in pieces)


def test_limited_triggers_include_every_partition() -> None:
    starts = {"a": 0, "b": 100, "c": 7, "d": 5}
    ends = {"a": 9_000, "b": 1_100, "c": 8, "d": 5}

    limited = limit_offsets(starts, ends, 100)

    assert limited == {"a": 89, "b": 109, "c": 8, "d": 5}
    assert limit_offsets(starts, ends, 10_001) == ends
    # What shrank is left where it is: the reader has said so by then.
    assert limit_offsets({"a": 10, "b": 0}, {"a": 5, "b": 100}, 10) == {"a": 5, "b": 10}


def test_tasks_begin_with_a_file_where_one_is_near() -> None:
    (whole,) = ranges(1_000_000)
    edges = {whole.partition: [0, 240_000, 600_000, 790_000, 2_000_000]}

    assert [one.start for one in split_ranges([whole], tasks_min=4, edges=edges)] == [1_000, 240_000, 501_000, 790_000]
    assert [one.start for one in split_ranges([whole], tasks_min=1, edges=edges)] == [1_000]
