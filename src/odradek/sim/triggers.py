"""Events of a node that a fault can wait for, e.g. right after it granted a vote or wrote a batch."""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

VOTE: Final = "vote"
"""It granted or requested a vote."""
APPEND: Final = "append"
"""It wrote to its metadata log."""
LEAD: Final = "lead"
"""It wrote the first record of its epoch, which no other node has received yet."""
SHRINK: Final = "shrink"
"""The controller has accepted its ISR shrink, and the response is on its way."""


class Triggers:
    def __init__(self) -> None:
        self._waiting: Final[dict[tuple[str, str], list[Callable[[], None]]]] = defaultdict(list)

    def on_next(self, what: str, node: str, then: Callable[[], None]) -> None:
        self._waiting[what, node].append(then)

    def fire(self, what: str, node: str) -> None:
        for then in self._waiting.pop((what, node), ()):
            then()
