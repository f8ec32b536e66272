"""The load during the faults, which is the same for every client library."""

from typing import Final, Protocol

INTERVAL_S: Final = 0.02
RECORDS_PER_INTERVAL: Final = 4
"""Per producer: 200 records per second, round-robin over all partitions."""
IN_FLIGHT_MAX: Final = 2000
"""A producer with this many sends in flight pauses, so that an outage does not cause a burst."""
VALUE_BYTES: Final = 100
HUGE_EVERY: Final = 101
"""A producer without retries sends every n-th record too large: the broker must reject it."""
HUGE_BYTES: Final = 30_000
RESPONSES_S_MAX: Final = 90.0
"""Maximum time from the last fault until every send has a response."""


class Clients(Protocol):
    """Producers and consumers of one client library."""

    def start(self) -> None: ...

    def finish_producing(self) -> None:
        """Stops producing and waits for all responses; reports an error if that takes too long."""

    def stop(self) -> None:
        """Also stops the consumers."""

    def abandon(self) -> None:
        """The run failed: stops without waiting for responses."""
