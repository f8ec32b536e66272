"""One thing that was false."""

from typing import NamedTuple


class Violation(NamedTuple):
    rule: str
    what: str
    # When it could first be seen.
    seconds: float

    def __str__(self) -> str:
        return f"{self.rule}: {self.what} (seen at {self.seconds:.6f} s)"
