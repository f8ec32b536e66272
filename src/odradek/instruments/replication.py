"""What leaders count of the replicas in sync."""


class IsrCounts:
    __slots__ = ("expands", "failed_updates", "shrinks")

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0
        self.failed_updates = 0
        """Proposals that the controller refused."""

    def committed(self, before: int, after: int) -> None:
        if after < before:
            self.shrinks += 1
        elif after > before:
            self.expands += 1
