"""Properties of every plan, and plans for small clusters."""

import time
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.client.placement import Place, PlacedPartition, Skew, loads_of, skew_of
from odradek.client.reassignment_plan import CannotPlan, PlannedReassignment, Purpose, plan_reassignments

EVEN = Purpose(even=True)


class Situation(NamedTuple):
    placed: list[PlacedPartition]
    places: dict[int, Place]
    online: frozenset[int]


def placed(number: int, replicas: Sequence[int], size_bytes: int = 100, topic: str = "orders") -> PlacedPartition:
    return PlacedPartition(partition=TopicPartition(topic, number), replicas=tuple(replicas), size_bytes=size_bytes)


def plan(
    partitions: Sequence[PlacedPartition],
    brokers: Collection[int] | Mapping[int, Place],
    purpose: Purpose,
    *,
    offline: Collection[int] = (),
    topics: Collection[str] | None = None,
) -> list[PlannedReassignment]:
    places = dict(brokers) if isinstance(brokers, Mapping) else dict.fromkeys(brokers, Place())
    return plan_reassignments(partitions, places, places.keys() - set(offline), purpose, topics=topics)


def on_racks(racks: Mapping[int, str]) -> dict[int, Place]:
    return {broker: Place(rack=rack) for broker, rack in racks.items()}


def on_hosts(hosts: Mapping[int, str]) -> dict[int, Place]:
    return {broker: Place(host=host) for broker, host in hosts.items()}


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


def shared(replicas: Collection[int], places: Mapping[int, Place]) -> tuple[int, int]:
    """The number of replicas on a rack, and on a host, that already has one. Without a rack, the host is the rack."""
    racks, hosts = set(), set()
    for broker in replicas:
        place = places.get(broker, Place())
        host = (place.rack, place.host or broker)
        hosts.add(host)
        racks.add(host if place.rack is None else place.rack)
    return len(replicas) - len(racks), len(replicas) - len(hosts)


def least_shared(
    kept: Collection[int], chosen_from: Collection[int], size: int, places: Mapping[int, Place]
) -> tuple[int, int]:
    """Of all ways to complete the kept replicas."""
    candidates = set(chosen_from) - set(kept)
    return min(shared([*kept, *chosen], places) for chosen in combinations(candidates, size - len(kept)))


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    brokers = draw(st.lists(st.integers(0, 20), min_size=1, max_size=7, unique=True))
    racks = st.sampled_from([None, "a", "b", "c", "d"])
    hosts = st.sampled_from([None, "h1", "h2", "h3"])
    places = {broker: Place(draw(racks), draw(hosts)) for broker in brokers}
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
    return Situation(partitions, places, frozenset(brokers) - offline)


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
    partitions, places, online = situation
    targets = online - purpose.drain
    try:
        moves = plan_reassignments(partitions, places, online, purpose, topics=topics)
    except CannotPlan:
        needed = max((len(one.replicas) for one in partitions), default=1)
        assert len(targets) < needed
        return
    assert moves == plan_reassignments(partitions[::-1], places, online, purpose, topics=topics)
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
        was, is_now = shared(before.replicas, places), shared(now.replicas, places)
        drained = set(before.replicas) & purpose.drain
        if came and not drained:
            assert is_now <= was
        if purpose.even and is_movable:
            assert is_now == least_shared(set(now.replicas) - targets, targets, len(now.replicas), places)
    if not purpose.even and not purpose.drain:
        assert all(set(move.adding) <= purpose.fill for move in moves)
    is_spread = any(
        shared(one.replicas, places) != shared(old.replicas, places)
        for one, old in zip(result, partitions, strict=True)
    )
    if not purpose.drain and not is_spread:
        old, new = skew(partitions, targets), skew(result, targets)
        assert new.replicas <= old.replicas
        assert new.leaders <= old.leaders
        stored = sum(load.size_bytes for load in loads_of(partitions, targets).values())
        assert new.size_bytes <= max(old.size_bytes, stored / len(targets) / 10)


@settings(deadline=None, max_examples=100)
@given(situations(), st.integers(0, 20))
def test_draining_copies_only_the_drained_replicas(situation: Situation, broker: int) -> None:
    partitions, places, online = situation
    try:
        moves = plan_reassignments(partitions, places, online, Purpose(drain=frozenset([broker])))
    except CannotPlan:
        return
    assert sum(move.bytes_to_copy for move in moves) == sum(
        one.size_bytes for one in partitions if broker in one.replicas
    )
    assert all(len(move.adding) == 1 for move in moves)
    for move in moves:
        kept = set(move.after) - set(move.adding)
        assert shared(move.after, places) == least_shared(kept, online - {broker}, len(move.after), places)


@settings(deadline=None, max_examples=100)
@given(situations(), st.frozensets(st.integers(0, 20), min_size=2, max_size=4))
def test_draining_several_brokers_spreads_replicas_as_far_as_possible(
    situation: Situation, drained: frozenset[int]
) -> None:
    partitions, places, online = situation
    try:
        moves = plan_reassignments(partitions, places, online, Purpose(drain=drained))
    except CannotPlan:
        return
    for move in moves:
        kept = set(move.after) - set(move.adding)
        assert shared(move.after, places) == least_shared(kept, online - drained, len(move.after), places)


@settings(deadline=None, max_examples=100)
@given(situations())
@example(
    Situation(
        [placed(0, (0, 1, 5))],
        {0: Place("a", "h1"), 1: Place("a", "h1"), 2: Place("a", "h2"), 3: Place("b", "h3"), 5: Place("c", "h4")},
        frozenset({0, 1, 2, 3, 5}),
    )
)
def test_spreading_moves_as_few_replicas_as_possible(situation: Situation) -> None:
    """One partition alone has no skew that a move could reduce."""
    partitions, places, online = situation
    for one in partitions:
        kept = [broker for broker in one.replicas if broker not in online]
        size = len(one.replicas)
        best = least_shared(kept, online, size, places)
        needed = min(
            len(set(chosen) - set(one.replicas))
            for chosen in combinations(online, size - len(kept))
            if shared([*kept, *chosen], places) == best
        )
        moves = plan_reassignments([one], places, online, EVEN)
        assert sum(len(move.adding) for move in moves) == needed


HOST_IN_TWO_RACKS = Situation(
    [placed(0, (7, 20, 16), 305), placed(1, (16, 19, 3), 0), placed(2, (7, 4, 13), 137)],
    {
        3: Place("a"),
        4: Place("a", "h1"),
        7: Place(None, "h2"),
        13: Place(None, "h2"),
        16: Place("a", "h1"),
        19: Place(None, "h1"),
        20: Place(None, "h1"),
    },
    frozenset({3, 4, 7, 13, 16, 19, 20}),
)
"""If a host spanned racks, balancing could change what replicas share, so that a second plan increased the skew."""


@settings(deadline=None, max_examples=100)
@given(situations())
@example(HOST_IN_TWO_RACKS)
def test_a_second_plan_does_not_increase_the_skew(situation: Situation) -> None:
    partitions, places, online = situation
    result = after(partitions, plan_reassignments(partitions, places, online, EVEN))
    again = plan_reassignments(result, places, online, EVEN)
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
    places = on_racks({1: "a", 2: "a", 3: "b", 4: "c"})
    partitions = [placed(number, (1, 2)) for number in range(4)]
    result = after(partitions, plan(partitions, places, EVEN))
    assert [shared(one.replicas, places)[0] for one in result] == [0] * 4


def test_replicas_are_spread_over_hosts() -> None:
    places = on_hosts({1: "a", 2: "a", 3: "b", 4: "b"})
    partitions = [placed(number, (1, 2) if number % 2 else (3, 4)) for number in range(4)]
    result = after(partitions, plan(partitions, places, EVEN))
    assert [shared(one.replicas, places)[1] for one in result] == [0] * 4
    assert skew(result, places).replicas == 0


def test_racks_come_before_hosts() -> None:
    places = {1: Place("x", "a"), 2: Place("x", "b"), 3: Place("y", "c"), 4: Place("y", "d")}
    partitions = [placed(0, (1, 2)), placed(1, (1, 3, 4))]
    result = after(partitions, plan(partitions, places, EVEN))
    assert shared(result[0].replicas, places)[0] == 0
    # Two racks for three replicas: the two that share a rack are on different hosts.
    assert shared(result[1].replicas, places) == (1, 0)


def test_a_drained_replica_does_not_share_a_host() -> None:
    places = on_hosts({1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"})
    (move,) = plan([placed(0, (1, 2, 3))], places, Purpose(drain=frozenset([3])))
    assert set(move.after) == {1, 2, 6}


def test_balancing_does_not_put_two_replicas_on_one_host() -> None:
    places = on_hosts({1: "a", 2: "a", 3: "b", 4: "c"})
    partitions = [placed(number, (3, 4), 1000 * number) for number in range(12)]
    result = after(partitions, plan(partitions, places, EVEN))
    assert not any(shared(one.replicas, places)[1] for one in result)
    assert skew(result, places).replicas < skew(partitions, places).replicas


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from("abcd"), min_size=2, max_size=8), st.data())
def test_balanced_replicas_share_no_host_if_there_are_enough(hosts: list[str], data: st.DataObject) -> None:
    places = on_hosts(dict(enumerate(hosts)))
    size = data.draw(st.integers(1, len(set(hosts))))
    replicas = st.lists(st.sampled_from(range(len(hosts))), min_size=size, max_size=size, unique=True)
    partitions = [placed(number, data.draw(replicas)) for number in range(data.draw(st.integers(1, 8)))]
    result = after(partitions, plan(partitions, places, EVEN))
    assert not any(shared(one.replicas, places)[1] for one in result)


def test_a_drained_replica_does_not_share_a_rack() -> None:
    places = on_racks({1: "a", 2: "b", 3: "c", 4: "a", 5: "c"})
    (move,) = plan([placed(0, (1, 2, 3))], places, Purpose(drain=frozenset([3])))
    assert set(move.after) == {1, 2, 5}


def test_replicas_are_on_different_brokers_with_too_few_racks() -> None:
    places = on_racks(dict.fromkeys((1, 2, 3), "a"))
    (move,) = plan([placed(0, (1, 2))], places, Purpose(drain=frozenset([2])))
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
