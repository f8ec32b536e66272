"""Moments of a node's life that a fault may wait for: right after a vote was given, or a batch was written."""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

VOTE: Final = "vote"
"""It gave its vote away, or asked for another's."""
APPEND: Final = "append"
"""It wrote to its metadata log."""
LEAD: Final = "lead"
"""It wrote the first record of its epoch, of which nobody has heard yet."""
SHRINK: Final = "shrink"
"""It is about to hear who is in sync with it now, as it wanted: not everybody."""


class Triggers:
    def __init__(self) -> None:
        self._waiting: Final[dict[tuple[str, str], list[Callable[[], None]]]] = defaultdict(list)

    def on_next(self, what: str, node: str, then: Callable[[], None]) -> None:
        self._waiting[what, node].append(then)

    def fire(self, what: str, node: str) -> None:
        for then in self._waiting.pop((what, node), ()):
            then()
