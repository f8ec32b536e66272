"""Properties of every plan, and plans for small clusters."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.client.placement import PlacedPartition, Skew, loads_of, skew_of
from odradek.client.reassignment_plan import CannotPlan, PlannedReassignment, Purpose, plan_reassignments

EVEN = Purpose(even=True)


class Situation(NamedTuple):
    placed: list[PlacedPartition]
    racks: dict[int, str | None]
    online: frozenset[int]


def placed(number: int, replicas: Sequence[int], size_bytes: int = 100, topic: str = "orders") -> PlacedPartition:
    return PlacedPartition(partition=TopicPartition(topic, number), replicas=tuple(replicas), size_bytes=size_bytes)


def plan(
    partitions: Sequence[PlacedPartition],
    brokers: Collection[int] | Mapping[int, str | None],
    purpose: Purpose,
    *,
    offline: Collection[int] = (),
    topics: Collection[str] | None = None,
) -> list[PlannedReassignment]:
    racks = dict(brokers) if isinstance(brokers, Mapping) else dict.fromkeys(brokers)
    return plan_reassignments(partitions, racks, racks.keys() - set(offline), purpose, topics=topics)


def after(partitions: Sequence[PlacedPartition], moves: Sequence[PlannedReassignment]) -> list[PlacedPartition]:
    changed = {move.partition: move for move in moves}
    for one in partitions:
        if one.partition in changed:
            assert changed[one.partition].before == one.replicas
            assert changed[one.partition].after != one.replicas
    return [
        PlacedPartition(
            partition=one.partition,
            replicas=changed[one.partition].after if one.partition in changed else one.replicas,
            size_bytes=one.size_bytes,
        )
        for one in partitions
    ]


def skew(partitions: Sequence[PlacedPartition], brokers: Collection[int]) -> Skew:
    return skew_of(list(loads_of(partitions, brokers).values()))


def shared(one: PlacedPartition, racks: Mapping[int, str | None]) -> int:
    return len(one.replicas) - len({racks.get(broker) or broker for broker in one.replicas})


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    brokers = draw(st.lists(st.integers(0, 20), min_size=1, max_size=7, unique=True))
    racks = {broker: draw(st.sampled_from([None, "a", "b", "c", "d"])) for broker in brokers}
    # A replica may be on a broker that is not registered any more.
    holders = [*brokers, 99]
    sizes = st.one_of(st.just(0), st.integers(1, 1000), st.integers(10**9, 10**12))
    partitions = [
        placed(
            number,
            draw(st.lists(st.sampled_from(holders), min_size=1, max_size=min(4, len(holders)), unique=True)),
            draw(sizes),
            draw(st.sampled_from(["orders", "clicks"])),
        )
        for number in range(draw(st.integers(0, 25)))
    ]
    offline = draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) // 3))
    return Situation(partitions, racks, frozenset(brokers) - offline)


purposes = st.builds(
    Purpose,
    drain=st.frozensets(st.integers(0, 20), max_size=3),
    fill=st.frozensets(st.integers(0, 20)),
    even=st.booleans(),
)


@settings(deadline=None, max_examples=200)
@given(situations(), purposes, st.sampled_from([None, {"orders"}]))
def test_every_plan_keeps_the_number_of_replicas_and_reduces_skew(
    situation: Situation, purpose: Purpose, topics: set[str] | None
) -> None:
    partitions, racks, online = situation
    targets = online - purpose.drain
    try:
        moves = plan_reassignments(partitions, racks, online, purpose, topics=topics)
    except CannotPlan:
        needed = max((len(one.replicas) for one in partitions), default=1)
        assert len(targets) < needed
        return
    assert moves == plan_reassignments(partitions[::-1], racks, online, purpose, topics=topics)
    assert [move.partition for move in moves] == sorted({move.partition for move in moves})
    result = after(partitions, moves)
    for before, now in zip(partitions, result, strict=True):
        assert len(now.replicas) == len(set(now.replicas)) == len(before.replicas)
        came, went = set(now.replicas) - set(before.replicas), set(before.replicas) - set(now.replicas)
        assert came <= targets
        assert went <= targets | purpose.drain
        is_movable = topics is None or now.partition.topic in topics
        if is_movable:
            assert not set(now.replicas) & purpose.drain
        else:
            assert now.replicas == before.replicas
        available = len({racks[broker] or broker for broker in targets})
        if came and available >= len(now.replicas):
            assert shared(now, racks) <= shared(before, racks)
        if purpose.even and is_movable and set(before.replicas) <= targets and available >= len(now.replicas):
            assert shared(now, racks) == 0
    if not purpose.even and not purpose.drain:
        assert all(set(move.adding) <= purpose.fill for move in moves)
    if not purpose.drain and (not purpose.even or not any(shared(one, racks) for one in partitions)):
        old, new = skew(partitions, targets), skew(result, targets)
        assert new.replicas <= old.replicas
        assert new.leaders <= old.leaders
        stored = sum(load.size_bytes for load in loads_of(partitions, targets).values())
        assert new.size_bytes <= max(old.size_bytes, stored / len(targets) / 10)


@settings(deadline=None, max_examples=100)
@given(situations(), st.integers(0, 20))
def test_draining_copies_only_the_drained_replicas(situation: Situation, broker: int) -> None:
    partitions, racks, online = situation
    try:
        moves = plan_reassignments(partitions, racks, online, Purpose(drain=frozenset([broker])))
    except CannotPlan:
        return
    assert sum(move.bytes_to_copy for move in moves) == sum(
        one.size_bytes for one in partitions if broker in one.replicas
    )
    assert all(len(move.adding) == 1 for move in moves)


@settings(deadline=None, max_examples=100)
@given(situations())
def test_a_balanced_cluster_is_not_changed(situation: Situation) -> None:
    partitions, racks, online = situation
    result = after(partitions, plan_reassignments(partitions, racks, online, EVEN))
    again = plan_reassignments(result, racks, online, EVEN)
    assert skew(after(result, again), online).replicas <= skew(result, online).replicas
    assert sum(move.bytes_to_copy for move in again) <= sum(one.size_bytes for one in partitions)


def test_empty_plans() -> None:
    partitions = [placed(0, (1, 2, 3)), placed(1, (2, 3, 1)), placed(2, (3, 1, 2))]
    assert plan(partitions, (1, 2, 3), EVEN) == []
    assert plan(partitions, (1, 2, 3, 4), Purpose(drain=frozenset([4]))) == []
    assert plan([], (1,), EVEN) == []


def test_a_new_broker_gets_its_share_without_other_changes() -> None:
    partitions = [placed(number, [1 + (number + step) % 3 for step in range(3)]) for number in range(24)]
    moves = plan(partitions, (1, 2, 3, 4), Purpose(fill=frozenset([4])))
    assert {move.adding for move in moves} == {(4,)}
    assert sum(move.bytes_to_copy for move in moves) == 18 * 100
    assert skew(after(partitions, moves), (1, 2, 3, 4)) == Skew(replicas=0, leaders=0, size_bytes=0)


def test_large_partitions_balance_the_bytes() -> None:
    partitions = [placed(0, (1,), 1000), placed(1, (1,), 1000), placed(2, (2,), 10), placed(3, (2,), 10)]
    moves = plan(partitions, (1, 2), EVEN)
    assert skew(after(partitions, moves), (1, 2)) == Skew(replicas=0, leaders=0, size_bytes=0)
    assert sum(move.bytes_to_copy for move in moves) == 1010


def test_a_huge_partition_is_not_moved_for_a_small_gain() -> None:
    partitions = [placed(0, (1,), 10**12), placed(1, (2,), 100)]
    assert plan(partitions, (1, 2), EVEN) == []


def test_leaders_are_balanced_without_copying() -> None:
    partitions = [placed(number, (1, 2, 3)) for number in range(6)]
    moves = plan(partitions, (1, 2, 3), EVEN)
    assert sum(move.bytes_to_copy for move in moves) == 0
    assert [load.leaders for load in loads_of(after(partitions, moves), (1, 2, 3)).values()] == [2, 2, 2]


def test_leadership_is_handed_on_along_a_chain_of_brokers() -> None:
    partitions = [*(placed(number, (1, 2)) for number in range(3)), placed(3, (2, 3)), placed(4, (2, 3))]
    moves = plan(partitions, (1, 2, 3), Purpose(even=True), topics={"orders"})
    assert skew(after(partitions, moves), (1, 2, 3)).leaders <= 1


def test_replicas_are_spread_over_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    partitions = [placed(number, (1, 2)) for number in range(4)]
    result = after(partitions, plan(partitions, racks, EVEN))
    assert [shared(one, racks) for one in result] == [0] * 4


def test_a_drained_replica_does_not_share_a_rack() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "c"}
    (move,) = plan([placed(0, (1, 2, 3))], racks, Purpose(drain=frozenset([3])))
    assert set(move.after) == {1, 2, 5}


def test_replicas_are_on_different_brokers_with_too_few_racks() -> None:
    racks = dict.fromkeys((1, 2, 3), "a")
    (move,) = plan([placed(0, (1, 2))], racks, Purpose(drain=frozenset([2])))
    assert set(move.after) == {1, 3}


def test_an_offline_broker_can_be_drained_and_receives_nothing() -> None:
    partitions = [placed(number, (1, 3)) for number in range(4)]
    moves = plan(partitions, (1, 2, 3, 4), Purpose(drain=frozenset([3])), offline=[3, 4])
    assert {frozenset(move.after) for move in moves} == {frozenset([1, 2])}
    (unknown,) = plan([placed(0, (1, 77))], (1, 2), Purpose(drain=frozenset([77])))
    assert set(unknown.after) == {1, 2}


def test_several_brokers_are_drained_at_once() -> None:
    partitions = [placed(number, (1, 2, 3)) for number in range(6)]
    moves = plan(partitions, (1, 2, 3, 4, 5), Purpose(drain=frozenset([1, 2])))
    assert all(set(move.after) == {3, 4, 5} for move in moves)
    assert skew(after(partitions, moves), (3, 4, 5)).leaders == 0


def test_impossible_plans_are_rejected() -> None:
    with pytest.raises(CannotPlan, match="orders-0 needs 2 brokers for its replicas, but only 1 would be left"):
        plan([placed(0, (1, 2))], (1, 2), Purpose(drain=frozenset([2])))
    with pytest.raises(CannotPlan, match="No broker would be left"):
        plan([placed(0, (1,))], (1,), Purpose(drain=frozenset([1])))


def test_twelve_thousand_replicas_are_planned_in_seconds() -> None:
    partitions = [
        placed(number, [(number + step * 5) % 11 for step in range(3)], number * 7919 % 1000 * 1_000_000)
        for number in range(4000)
    ]
    began_at = time.monotonic()
    moves = plan(partitions, range(12), EVEN)
    assert time.monotonic() - began_at < 20
    assert skew(after(partitions, moves), range(12)).replicas <= 1
    assert skew(after(partitions, moves), range(12)).leaders <= 1
