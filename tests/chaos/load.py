"""The load under which the cluster is harmed, whatever client makes it: how much, and how large."""

from typing import Final, Protocol

INTERVAL_S: Final = 0.02
RECORDS_PER_INTERVAL: Final = 4
"""Of each producer: 200 records a second, in turn to all partitions."""
IN_FLIGHT_MAX: Final = 2000
"""Whoever waits for that many answers sends nothing more: an outage must not become a flood."""
VALUE_BYTES: Final = 100
HUGE_EVERY: Final = 101
"""Producers that do not retry send a record that is too large now and then: it must be refused, and never be seen."""
HUGE_BYTES: Final = 30_000
ANSWERS_S_MAX: Final = 90.0
"""How long after the last fault every send must be answered."""


class Clients(Protocol):
    """Producers and consumers of one client library."""

    def start(self) -> None: ...

    def finish_producing(self) -> None:
        """Nothing more is sent; returns when everything is answered, and complains if that takes too long."""

    def stop(self) -> None:
        """Consumers too."""

    def abandon(self) -> None:
        """The run is broken off: nobody waits for an answer any more."""
