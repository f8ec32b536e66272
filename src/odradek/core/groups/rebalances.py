"""The reasons and times of a group's last rebalances."""

from dataclasses import dataclass
from typing import Final

REBALANCES_KEPT: Final = 10


@dataclass(slots=True)
class Rebalance:
    """The reason for a new assignment, and the time when all members had reached it."""

    cause: str
    began_ms: int
    ended_ms: int | None = None
