"""How a voter detects that the quorum leader's process has died, before the fetch timeout.

A process that ends closes its port, and the next connection to it is refused. A voter that sees its leader refuse
connections requests pre-votes after a short jitter, and other voters grant them if their own connections are refused
too. So a majority never votes against a leader that it can reach. A leader that does not respond at all is no evidence:
then Kafka's timeouts apply.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from odradek.base.ports import Random

JITTER_MS_MAX: Final = 50
"""Spreads the elections of the voters that lose the same leader."""
RETRY_MS_MIN: Final = 20
RETRY_MS_MAX: Final = 100


class RefusedNodes:
    """The nodes whose port refused this node's last connection."""

    def __init__(self, *, is_enabled: bool, random: Random) -> None:
        """`is_enabled`: otherwise no node is ever taken for dead, as in Kafka."""
        self._is_enabled: Final = is_enabled
        self._random: Final = random
        self._ids: Final[set[int]] = set()

    @property
    def is_enabled(self) -> bool:
        return self._is_enabled

    @property
    def ids(self) -> AbstractSet[int]:
        return self._ids

    def on_refused(self, node_id: int) -> None:
        self._ids.add(node_id)

    def on_connected(self, node_id: int) -> None:
        self._ids.discard(node_id)

    def is_dead(self, node_id: int | None) -> bool:
        return self._is_enabled and node_id in self._ids

    def first_election_ms(self, now_ms: int) -> int:
        """When to request pre-votes after a leader has refused a connection."""
        return now_ms + self._random.randrange(JITTER_MS_MAX + 1)

    def next_election_ms(self, now_ms: int) -> int:
        """When to request them again after a lost or split vote."""
        return now_ms + RETRY_MS_MIN + self._random.randrange(RETRY_MS_MAX - RETRY_MS_MIN + 1)
