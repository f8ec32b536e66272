"""Leaders that changed, as the metadata log tells it."""

from collections.abc import Collection


class ElectionCounts:
    __slots__ = ("from_eligible", "total", "unclean")

    def __init__(self) -> None:
        self.total = 0
        """Partitions that got another leader, whoever it was."""
        self.unclean = 0
        """Of these, leaders that may lack records."""
        self.from_eligible = 0
        """And those that were not in sync, but known to have everything (KIP-966)."""

    def elected(self, leader: int, in_sync: Collection[int], eligible: Collection[int]) -> None:
        """`in_sync` and `eligible` are those of before."""
        self.total += 1
        if leader in in_sync:
            return
        if leader in eligible:
            self.from_eligible += 1
        else:
            self.unclean += 1
