"""When nothing was wrong with some machines, nor between them."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final

from odradek.sim.quorum_history import Trouble


class Calm:
    def __init__(self, troubles: Iterable[Trouble]) -> None:
        self._troubles: Final = sorted(troubles, key=lambda one: one.began)

    def lasts(self, names: frozenset[str], start: float, end: float) -> bool:
        return not any(
            one.began < end and one.ended > start for one in self._troubles if one.one in names and one.other in names
        )

    def stretches(self, names: frozenset[str], start: float, end: float) -> Iterator[tuple[float, float]]:
        """The times within these in which all is well among them."""
        calm_since = start
        for one in self._troubles:
            if one.one in names and one.other in names and one.ended > calm_since:
                if one.began >= end:
                    break
                if one.began > calm_since:
                    yield calm_since, one.began
                calm_since = one.ended
        if calm_since < end:
            yield calm_since, end


def majorities(voters: frozenset[str]) -> list[frozenset[str]]:
    """The smallest ones."""
    return [frozenset(some) for some in combinations(sorted(voters), len(voters) // 2 + 1)]
