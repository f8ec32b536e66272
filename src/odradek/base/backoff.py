"""How long to wait before the next attempt, the longer the more have failed; as Kafka's nodes do."""

from typing import Final

from odradek.base.ports import Random

FIRST_SECONDS: Final = 0.1
JITTER: Final = 0.02


def backoff_seconds(failures: int, seconds_max: float, random: Random) -> float:
    """After so many failures in a row, of which there is one at least."""
    # No power of two beyond these matters, and a float would not hold it.
    seconds = min(FIRST_SECONDS * (1 << min(failures - 1, 32)), seconds_max)
    return seconds * (1 - JITTER + 2 * JITTER * random.random())
