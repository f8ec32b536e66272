"""Periods without faults of some computers and of the links between them."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final

from odradek.sim.quorum_history import Disturbance


class QuietPeriods:
    def __init__(self, disturbances: Iterable[Disturbance]) -> None:
        self._troubles: Final = sorted(disturbances, key=lambda one: one.began)

    def lasts(self, names: frozenset[str], start: float, end: float) -> bool:
        return not any(
            one.began < end and one.ended > start for one in self._troubles if one.one in names and one.other in names
        )

    def intervals(self, names: frozenset[str], start: float, end: float) -> Iterator[tuple[float, float]]:
        """The parts of the interval without disturbances."""
        quiet_since = start
        for one in self._troubles:
            if one.one in names and one.other in names and one.ended > quiet_since:
                if one.began >= end:
                    break
                if one.began > quiet_since:
                    yield quiet_since, one.began
                quiet_since = one.ended
        if quiet_since < end:
            yield quiet_since, end


def majorities(voters: frozenset[str]) -> list[frozenset[str]]:
    """The smallest ones."""
    return [frozenset(some) for some in combinations(sorted(voters), len(voters) // 2 + 1)]
