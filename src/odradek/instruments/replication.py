"""Counts ISR changes, on the leader."""


class IsrCounts:
    __slots__ = ("expands", "failed_updates", "shrinks")

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0
        self.failed_updates = 0
        """AlterPartition requests that the controller rejected."""

    def count_change(self, before: int, after: int) -> None:
        if after < before:
            self.shrinks += 1
        elif after > before:
            self.expands += 1
