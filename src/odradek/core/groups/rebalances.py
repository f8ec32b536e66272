"""What is remembered of a group's last rebalances, for who wants to know why members were interrupted."""

from dataclasses import dataclass
from typing import Final

REBALANCES_KEPT: Final = 10


@dataclass(slots=True)
class Rebalance:
    """Why there had to be another assignment, and when all members had come to it."""

    cause: str
    began_ms: int
    ended_ms: int | None = None
