"""The progress of reassignments: copied bytes, completed partitions, rates and estimates."""

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.reassignment_progress import ProgressMeter, ReassignmentState, state_of
from odradek.client.reassignments import Reassignment

PARTITION = TopicPartition("orders", 0)
MOVE = Reassignment(partition=PARTITION, replicas=(4, 5, 1, 2), adding=(4, 5), removing=(1,))


def state(number: int, copied_bytes: int, total_bytes: int) -> ReassignmentState:
    partition = TopicPartition("orders", number)
    move = Reassignment(partition=partition, replicas=(2, 1), adding=(2,), removing=(1,))
    return ReassignmentState(reassignment=move, copied_bytes=copied_bytes, total_bytes=total_bytes)


def test_new_replicas_are_compared_with_the_leader() -> None:
    assert MOVE.target == (4, 5, 2)
    found = state_of(MOVE, 1, {1: {PARTITION: 100}, 2: {PARTITION: 90}, 4: {PARTITION: 30}, 5: {}})
    assert (found.copied_bytes, found.total_bytes) == (30, 200)


def test_copied_bytes_never_exceed_the_total() -> None:
    found = state_of(MOVE, 1, {1: {PARTITION: 100}, 4: {PARTITION: 130}, 5: {PARTITION: 100}})
    assert (found.copied_bytes, found.total_bytes) == (200, 200)


@pytest.mark.parametrize("leader", [-1, 1])
def test_without_the_leaders_size_the_largest_old_replica_counts(leader: int) -> None:
    found = state_of(MOVE, leader, {2: {PARTITION: 80}, 4: {PARTITION: 130}})
    assert (found.copied_bytes, found.total_bytes) == (80, 160)
    assert state_of(MOVE, leader, {}).total_bytes == 0


def test_rate_and_estimate_need_two_samples() -> None:
    meter = ProgressMeter()
    first = meter.sample([state(0, 0, 1000), state(1, 0, 1000)], 10.0)
    assert (first.bytes_per_s, first.seconds_left, first.completed_count) == (None, None, 0)
    second = meter.sample([state(1, 500, 1000)], 13.0)
    assert (second.copied_bytes, second.total_bytes, second.completed_count) == (1500, 2000, 1)
    assert (second.bytes_per_s, second.seconds_left) == (500.0, 1.0)
    last = meter.sample([], 14.0)
    assert (last.copied_bytes, last.total_bytes, last.completed_count, last.seconds_left) == (2000, 2000, 2, 0.0)


def test_no_estimate_without_progress() -> None:
    meter = ProgressMeter()
    meter.sample([state(0, 100, 1000)], 1.0)
    stuck = meter.sample([state(0, 100, 1000)], 2.0)
    assert (stuck.bytes_per_s, stuck.seconds_left) == (0.0, None)
    # A new replica that restarts from the beginning, or a clock that does not advance.
    assert meter.sample([state(0, 0, 1000)], 3.0).bytes_per_s == 0.0
    assert meter.sample([state(0, 0, 1000)], 1.0).bytes_per_s is None


def test_growing_totals_and_later_reassignments() -> None:
    meter = ProgressMeter()
    meter.sample([state(0, 100, 200)], 0.0)
    seen = meter.sample([state(0, 200, 500), state(1, 0, 100)], 1.0)
    assert (seen.copied_bytes, seen.total_bytes, seen.partition_count) == (200, 600, 2)
    assert seen.seconds_left == 4.0


def test_no_reassignments() -> None:
    seen = ProgressMeter().sample([], 0.0)
    assert (seen.partition_count, seen.total_bytes, seen.seconds_left) == (0, 0, 0.0)
