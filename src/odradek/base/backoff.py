"""Exponential backoff with jitter, as in Kafka."""

from typing import Final

from odradek.base.ports import Random

FIRST_SECONDS: Final = 0.1
JITTER: Final = 0.02


def backoff_seconds(failures: int, seconds_max: float, random: Random) -> float:
    """The pause after this number of consecutive failures, at least one."""
    # Larger powers exceed any limit, and do not fit a float.
    seconds = min(FIRST_SECONDS * (1 << min(failures - 1, 32)), seconds_max)
    return seconds * (1 - JITTER + 2 * JITTER * random.random())
