"""A seed decides everything, every round holds every act, and what cannot be done here is left out."""

from tests.chaos.plan import DISK_ACTS, NETWORK_ACTS, Act, Plan

BROKERS = (1, 2, 3, 4, 5)
SMALL, SLOWABLE = (3, 5), (2, 4)


def test_the_same_seed_plans_the_same() -> None:
    assert Plan(7, BROKERS, 6, (3,)).first(50) == Plan(7, BROKERS, 6, (3,)).first(50)
    assert Plan(7, BROKERS, 6, (3,)).first(50) != Plan(8, BROKERS, 6, (3,)).first(50)


def test_every_act_once_in_a_round() -> None:
    strikes = Plan(7, BROKERS, 6, SMALL, SLOWABLE).first(2 * len(Act))
    assert {strike.act for strike in strikes[: len(Act)]} == set(Act)
    assert {strike.act for strike in strikes[len(Act) :]} == set(Act)


def test_disks_are_filled_where_they_are_small_and_slowed_where_they_can_be() -> None:
    strikes = Plan(7, BROKERS, 6, SMALL, SLOWABLE).first(200)
    assert {strike.node for strike in strikes if strike.act is Act.FILL_DISK} == set(SMALL)
    assert {strike.node for strike in strikes if strike.act is Act.SLOW_DISK} == set(SLOWABLE)


def test_what_cannot_be_done_is_left_out() -> None:
    acts = {strike.act for strike in Plan(7, BROKERS, 6, without=NETWORK_ACTS).first(100)}
    assert acts == set(Act) - NETWORK_ACTS - DISK_ACTS - {Act.SLOW_DISK}


def test_kills_in_a_row_hit_all_and_now_and_then_several_at_once() -> None:
    strikes = [strike for strike, _ in zip(Plan(7, BROKERS, 6).kills(), range(200), strict=False)]
    assert {strike.act for strike in strikes} == {Act.KILL, Act.KILL_TWO, Act.KILL_ALL}
    assert {strike.node for strike in strikes} == set(BROKERS)


def test_moves_go_to_three_different_brokers() -> None:
    for strike in Plan(7, BROKERS, 6).first(200):
        for _, replicas in strike.moves:
            assert len(set(replicas)) == 3
        assert strike.node != strike.other
