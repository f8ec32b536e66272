"""Counts leader elections, as they appear in the metadata log."""

from collections.abc import Collection


class ElectionCounts:
    __slots__ = ("from_eligible", "total", "unclean")

    def __init__(self) -> None:
        self.total = 0
        """Partitions that got another leader."""
        self.unclean = 0
        """Of these, elections of a replica that may miss committed records."""
        self.from_eligible = 0
        """And elections of an eligible leader replica, outside the ISR (KIP-966)."""

    def count_election(self, leader: int, in_sync: Collection[int], eligible: Collection[int]) -> None:
        """`in_sync` and `eligible` are those before the election."""
        self.total += 1
        if leader in in_sync:
            return
        if leader in eligible:
            self.from_eligible += 1
        else:
            self.unclean += 1
