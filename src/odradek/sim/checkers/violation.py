"""A violation of a rule."""

from typing import NamedTuple


class Violation(NamedTuple):
    rule: str
    what: str
    # When it was first visible.
    seconds: float

    def __str__(self) -> str:
        return f"{self.rule}: {self.what} (seen at {self.seconds:.6f} s)"
