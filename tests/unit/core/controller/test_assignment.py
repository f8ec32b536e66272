"""The way of a partition from some brokers to others. Names of cases: what the ISR is, and who has to wait for whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.controller.assignment import Assignment

brokers = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


class TestTowards:
    def test_who_goes_stands_last_and_who_comes_where_it_will_stay(self) -> None:
        assert Assignment((1, 2, 3)).towards((4, 2, 5)) == Assignment((4, 2, 5, 1, 3), (4, 5), (1, 3))

    def test_another_order_needs_no_way(self) -> None:
        assert Assignment((1, 2, 3)).towards((3, 1, 2)) == Assignment((3, 1, 2))

    def test_more_and_fewer_replicas(self) -> None:
        assert Assignment((1,)).towards((1, 2, 3)) == Assignment((1, 2, 3), (2, 3))
        assert Assignment((1, 2, 3)).towards((2,)) == Assignment((2, 1, 3), (), (1, 3))

    def test_a_second_wish_takes_the_place_of_the_first(self) -> None:
        first = Assignment((1, 2)).towards((3, 2))
        assert first == Assignment((3, 2, 1), (3,), (1,))
        assert first.towards((4, 2)) == Assignment((4, 2, 1, 3), (4,), (1, 3))

    def test_who_is_wanted_after_all_is_not_removed(self) -> None:
        first = Assignment((1, 2)).towards((3, 2))
        assert first.towards((1, 2, 3)) == Assignment((1, 2, 3), (3,))
        assert first.towards((3, 2, 1)) == Assignment((3, 2, 1), (3,))
        assert first.towards((1, 3, 4)) == Assignment((1, 3, 4, 2), (3, 4), (2,))

    def test_back_to_the_first_place(self) -> None:
        first = Assignment((1, 2)).towards((3, 2))
        assert first.towards((1, 2)) == Assignment((1, 2, 3), (), (3,))

    @given(brokers, brokers, brokers)
    def test_whatever_is_wished(self, start: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]) -> None:
        way = Assignment(start).towards(first).towards(second)
        assert way.final_replicas == second
        assert way.replicas[: len(second)] == second
        assert set(way.replicas) == {*start, *first, *second}
        assert len(set(way.replicas)) == len(way.replicas)
        assert not set(way.adding) & set(way.removing)
        assert set(way.adding) == set(second) - set(start)
        assert set(way.original_replicas) >= set(start) & set(way.replicas)


class TestCompleted:
    @pytest.mark.parametrize(
        ("start", "target", "isr", "is_complete"),
        [
            ((1, 2, 3), (4, 5, 6), (1, 2, 3, 4, 5), False),
            ((1, 2, 3), (4, 5, 6), (1, 4, 5, 6), True),
            ((1, 2, 3), (4, 2, 3), (1, 2, 3), False),
            ((1, 2, 3), (4, 2, 3), (1, 2, 4), True),
            ((1, 2, 3), (1, 2, 3, 4), (1, 4), True),
            ((1, 2, 3), (1, 2, 3, 4), (1, 2, 3), False),
            ((1,), (2,), (1,), False),
            ((1,), (2,), (1, 2), True),
            ((1, 2, 3), (1,), (1,), True),
            ((1, 2, 3), (1,), (2, 3), False),
            ((1, 2, 3), (1, 2), (1, 3), False),
            ((1, 2, 3), (1, 4), (1, 4), True),
            ((1, 2, 3), (1, 4), (2, 4), False),
            ((1, 2, 3), (1, 4), (), False),
            ((1, 2, 3), (3, 2, 1), (1, 2, 3), False),
        ],
    )
    def test_by_who_is_in_sync(
        self, start: tuple[int, ...], target: tuple[int, ...], isr: tuple[int, ...], is_complete: bool
    ) -> None:
        completed = Assignment(start).towards(target).completed(isr, isr, 1)
        assert completed == (Assignment(target) if is_complete else None)

    def test_nobody_goes_who_is_needed_for_the_minimum(self) -> None:
        way = Assignment((1, 2, 3)).towards((4, 2, 3))
        assert way.completed((1, 4), (1, 4), 2) is None
        assert way.completed((1, 3, 4), (1, 3), 2) == Assignment((4, 2, 3))
        assert way.completed((1, 4), (1, 4), 1) == Assignment((4, 2, 3))

    def test_nor_who_is_eligible(self) -> None:
        way = Assignment((1, 2)).towards((4, 2))
        assert way.completed((4,), (1, 4), 2) is None
        assert way.completed((4,), (1, 2, 4), 2) is None
        assert way.completed((4, 2), (1, 2, 4), 2) == Assignment((4, 2))

    def test_who_has_nothing_to_lose_may_go(self) -> None:
        way = Assignment((1, 2)).towards((4, 2))
        assert way.completed((4,), (2, 4), 2) == Assignment((4, 2))

    def test_the_minimum_is_not_more_than_there_will_be(self) -> None:
        assert Assignment((1, 2, 3)).towards((1,)).completed((1, 2, 3), (1, 2, 3), 2) == Assignment((1,))

    def test_a_minimum_that_nobody_meets_holds_up_nobody_who_only_comes(self) -> None:
        assert Assignment((1, 2, 3)).towards((1, 2, 3, 4)).completed((1, 4), (1, 2), 3) == Assignment((1, 2, 3, 4))
