"""Reassignment of a partition. Cases are named by the ISR and by the replicas that must catch up first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.controller.assignment import Assignment

brokers = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


class TestTowards:
    def test_removed_replicas_come_last_and_added_ones_in_target_order(self) -> None:
        assert Assignment((1, 2, 3)).towards((4, 2, 5)) == Assignment((4, 2, 5, 1, 3), (4, 5), (1, 3))

    def test_reordering_adds_and_removes_nothing(self) -> None:
        assert Assignment((1, 2, 3)).towards((3, 1, 2)) == Assignment((3, 1, 2))

    def test_replication_factor_can_change(self) -> None:
        assert Assignment((1,)).towards((1, 2, 3)) == Assignment((1, 2, 3), (2, 3))
        assert Assignment((1, 2, 3)).towards((2,)) == Assignment((2, 1, 3), (), (1, 3))

    def test_second_reassignment_replaces_the_first(self) -> None:
        first = Assignment((1, 2)).towards((3, 2))
        assert first == Assignment((3, 2, 1), (3,), (1,))
        assert first.towards((4, 2)) == Assignment((4, 2, 1, 3), (4,), (1, 3))

    def test_replica_of_the_new_target_is_not_removed(self) -> None:
        first = Assignment((1, 2)).towards((3, 2))
        assert first.towards((1, 2, 3)) == Assignment((1, 2, 3), (3,))
        assert first.towards((3, 2, 1)) == Assignment((3, 2, 1), (3,))
        assert first.towards((1, 3, 4)) == Assignment((1, 3, 4, 2), (3, 4), (2,))

    def test_reassignment_back_to_the_original_replicas(self) -> None:
        first = Assignment((1, 2)).towards((3, 2))
        assert first.towards((1, 2)) == Assignment((1, 2, 3), (), (3,))

    @given(brokers, brokers, brokers)
    def test_any_reassignment_reaches_its_target(
        self, start: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]
    ) -> None:
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
    def test_completes_when_added_replicas_are_in_sync(
        self, start: tuple[int, ...], target: tuple[int, ...], isr: tuple[int, ...], is_complete: bool
    ) -> None:
        completed = Assignment(start).towards(target).try_complete(isr, isr, 1)
        assert completed == (Assignment(target) if is_complete else None)

    def test_replica_needed_for_min_isr_is_not_removed(self) -> None:
        way = Assignment((1, 2, 3)).towards((4, 2, 3))
        assert way.try_complete((1, 4), (1, 4), 2) is None
        assert way.try_complete((1, 3, 4), (1, 3), 2) == Assignment((4, 2, 3))
        assert way.try_complete((1, 4), (1, 4), 1) == Assignment((4, 2, 3))

    def test_eligible_replica_is_not_removed(self) -> None:
        way = Assignment((1, 2)).towards((4, 2))
        assert way.try_complete((4,), (1, 4), 2) is None
        assert way.try_complete((4,), (1, 2, 4), 2) is None
        assert way.try_complete((4, 2), (1, 2, 4), 2) == Assignment((4, 2))

    def test_replica_without_committed_records_may_be_removed(self) -> None:
        way = Assignment((1, 2)).towards((4, 2))
        assert way.try_complete((4,), (2, 4), 2) == Assignment((4, 2))

    def test_min_isr_is_limited_by_the_number_of_replicas(self) -> None:
        assert Assignment((1, 2, 3)).towards((1,)).try_complete((1, 2, 3), (1, 2, 3), 2) == Assignment((1,))

    def test_unmet_min_isr_does_not_block_added_replicas(self) -> None:
        assert Assignment((1, 2, 3)).towards((1, 2, 3, 4)).try_complete((1, 4), (1, 2), 3) == Assignment((1, 2, 3, 4))
