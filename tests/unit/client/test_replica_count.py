import pytest

from odradek.base.ids import TopicPartition
from odradek.client.placement import Place, PlacedPartition
from odradek.client.reassignment_plan import CannotPlan
from odradek.client.replica_count import plan_replica_count

ANYWHERE = dict.fromkeys((1, 2, 3, 4), Place())


def placed(topic: str, *replicas: tuple[int, ...]) -> list[PlacedPartition]:
    return [
        PlacedPartition(partition=TopicPartition(topic, number), replicas=brokers, size_bytes=10)
        for number, brokers in enumerate(replicas)
    ]


def after(moves: list) -> list[tuple[int, ...]]:
    return [move.after for move in moves]


def test_new_replicas_go_to_the_least_loaded_brokers_and_leaders_stay() -> None:
    others = placed("others", (2,), (2,))
    moves = plan_replica_count([*placed("orders", (1,), (2,)), *others], ANYWHERE, {1, 2, 3}, "orders", 2)
    assert after(moves) == [(1, 3), (2, 1)]
    assert [move.bytes_to_copy for move in moves] == [10, 10]


def test_removing_replicas_keeps_the_first_and_copies_nothing() -> None:
    moves = plan_replica_count(placed("orders", (3, 1, 2), (1, 2, 3)), ANYWHERE, {1, 2, 3}, "orders", 1)
    assert after(moves) == [(3,), (1,)]
    assert [move.bytes_to_copy for move in moves] == [0, 0]


def test_offline_replicas_are_removed_first() -> None:
    assert after(plan_replica_count(placed("orders", (3, 1, 2)), ANYWHERE, {1, 2}, "orders", 2)) == [(1, 2)]


def test_new_replicas_are_spread_over_racks_and_hosts() -> None:
    names = {1: "a", 2: "a", 3: "b", 4: "b"}
    for places in (
        {broker: Place(rack=name) for broker, name in names.items()},
        {broker: Place(host=name) for broker, name in names.items()},
    ):
        grown = plan_replica_count(placed("orders", (1,)), places, {1, 2, 3, 4}, "orders", 2)
        assert after(grown) == [(1, 3)]
        shrunk = plan_replica_count(placed("orders", (1, 2, 3)), places, {1, 2, 3, 4}, "orders", 2)
        assert after(shrunk) == [(1, 3)]


def test_unchanged_and_impossible_replica_counts() -> None:
    there = placed("orders", (1, 2))
    assert plan_replica_count(there, ANYWHERE, {1, 2, 3}, "orders", 2) == []
    with pytest.raises(CannotPlan, match="4 replicas need 4 brokers, but only 3 are online"):
        plan_replica_count(there, ANYWHERE, {1, 2, 3}, "orders", 4)
