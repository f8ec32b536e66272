"""Rounds alternate between the sides, and each is bounded in time."""

from bench.workloads.loads import Commits, ProduceWithTool
from bench.workloads.rounds import FULL, QUICK, amount_of_round, order_of_round
from bench.workloads.rows import Cluster, Row
from bench.workloads.sides import ONE_BROKER_SIDES

PRODUCING = Row("some", "some load", "records", Cluster.ONE_BROKER, ProduceWithTool(100, "none"), 8_000_000, 800_000)
COMMITTING = Row("commits", "commits", "commits", Cluster.ONE_BROKER, Commits(), 4_000, 1_500)


def test_every_second_round_is_reversed() -> None:
    first, second = order_of_round(ONE_BROKER_SIDES, 0), order_of_round(ONE_BROKER_SIDES, 1)
    assert first == tuple(reversed(second)) == ONE_BROKER_SIDES


def test_first_round_and_quick_rounds_do_the_least_work() -> None:
    assert amount_of_round(PRODUCING, FULL, []) == 800_000
    assert amount_of_round(PRODUCING, QUICK, [10_000_000]) == 800_000


def test_later_rounds_take_the_slowest_side_the_given_time() -> None:
    assert amount_of_round(PRODUCING, FULL, [1_000_000, 400_000, 500_000]) == 400_000 * FULL.round_s


def test_amount_has_an_upper_and_a_lower_bound() -> None:
    assert amount_of_round(PRODUCING, FULL, [10_000_000]) == 8_000_000
    assert amount_of_round(PRODUCING, FULL, [1]) == 800_000


def test_timed_load_always_runs_for_its_time() -> None:
    assert amount_of_round(COMMITTING, QUICK, [1.0]) == amount_of_round(COMMITTING, QUICK, []) == 1_500
