"""The preferred read replica of a consumer."""

from collections.abc import Mapping

import pytest

from odradek.core.replication.high_watermark import HighWatermark
from odradek.core.replication.leader import LeaderState
from odradek.core.replication.read_replica import preferred_read_replica

RACKS = {1: "east", 2: "west", 3: "west", 4: "south"}
END = 100


class Registered:
    epoch = 7
    fenced = False
    in_controlled_shutdown = False


def leader(isr: tuple[int, ...] = (1, 2, 3, 4), **fetched: int) -> LeaderState:
    """Broker 1 with followers at the given end offsets."""
    state = LeaderState(
        broker_id=1,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1, 2, 3, 4),
        isr=isr,
        min_isr=1,
        epoch_start_offset=0,
        log_end_offset=END,
        high_watermark=HighWatermark(0),
        lag_max_seconds=30.0,
        brokers=lambda _: Registered(),
        now=0.0,
    )
    for number, (name, offset) in enumerate(fetched.items(), 1):
        state.on_fetch(int(name.removeprefix("by_")), 7, offset, 10, float(number))
    return state


def chosen(state: LeaderState, offset: int, rack: str, racks: Mapping[int, str] = RACKS) -> int | None:
    return preferred_read_replica(state, offset, rack, racks.get)


def test_replica_with_the_highest_end_offset_in_the_rack_is_preferred() -> None:
    assert chosen(leader(by_2=50, by_3=60), 20, "west") == 3
    assert chosen(leader(by_2=60, by_3=50), 20, "west") == 2


def test_most_recently_caught_up_replica_wins_a_tie() -> None:
    assert chosen(leader(by_3=END, by_2=END), 20, "west") == 2
    assert chosen(leader(by_2=END, by_3=END), 20, "west") == 3


def test_leader_in_the_same_rack_is_preferred() -> None:
    assert chosen(leader(by_2=END), 20, "east") is None
    assert chosen(leader(by_2=END), 20, "west", {**RACKS, 1: "west"}) is None


@pytest.mark.parametrize("rack", ["north", ""])
def test_leader_is_used_without_replica_in_the_rack(rack: str) -> None:
    assert chosen(leader(by_2=END, by_3=END, by_4=END), 20, rack) is None


def test_replica_outside_the_isr_is_not_preferred() -> None:
    assert chosen(leader(isr=(1, 4), by_2=END, by_3=END), 20, "west") is None


@pytest.mark.parametrize(("offset", "replica"), [(9, None), (10, 2), (50, 2), (51, None)])
def test_preferred_replica_must_have_the_offset(offset: int, replica: int | None) -> None:
    assert chosen(leader(by_2=50), offset, "west") == replica


def test_replica_that_has_not_fetched_is_not_preferred() -> None:
    assert chosen(leader(), 0, "west") is None


def test_unreachable_replica_is_not_preferred() -> None:
    assert chosen(leader(by_2=END, by_3=50), 20, "west", {1: "east", 3: "west"}) == 3
