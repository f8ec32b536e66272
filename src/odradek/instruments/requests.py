"""Requests by name: how many of which version, which errors they were answered with, and where their time went.

Of a request's time the queue is that before its handler began, because others of its connection came first; local is
the handler's own on the event loop; remote is what the answer then waited for: data, replicas, disks, the controller.
Most requests wait for nothing: their local time is all of it, and is counted once.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from odradek.instruments.histogram import UNITS_PER_SECOND, Histogram

FETCH: Final = "Fetch"
FROM_CONSUMERS: Final = "FetchConsumer"
FROM_FOLLOWERS: Final = "FetchFollower"


class ErrorName(Protocol):
    @property
    def name(self) -> str: ...


class RequestKind:
    """All requests of one name."""

    __slots__ = ("at_once", "counts", "errors", "local", "name", "queue", "remote", "total")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.counts: Final[dict[int, int]] = {}
        """By version."""
        self.errors: Final[dict[str, int]] = {}
        """By name, as Kafka spells it. Success is no error."""
        self.at_once: Final = Histogram()
        # Of those only that waited for something.
        self.queue: Final = Histogram()
        self.local: Final = Histogram()
        self.remote: Final = Histogram()
        self.total: Final = Histogram()

    def mark(self) -> None:
        """Once a minute."""
        for histogram in (self.at_once, self.queue, self.local, self.remote, self.total):
            histogram.mark()


class RequestMeter:
    """What counts the requests of one connection to one version of an API."""

    __slots__ = ("_followers", "kind", "version")

    def __init__(self, kind: RequestKind, version: int, followers: RequestKind | None = None) -> None:
        self.kind = kind
        self.version: Final = version
        self._followers: Final = followers
        kind.counts.setdefault(version, 0)

    def is_follower(self) -> None:
        """It turned out who asks, and does so from now on."""
        if self._followers is not None:
            self.kind = self._followers
            self.kind.counts.setdefault(self.version, 0)

    def at_once(self, seconds: float) -> None:
        """Answered by its handler, which nothing had kept from beginning."""
        kind = self.kind
        kind.counts[self.version] += 1
        # As `Histogram.observe`: the most frequent of all calls is spared one.
        histogram = kind.at_once
        units = int(seconds * UNITS_PER_SECOND) + 8
        length = units.bit_length()
        histogram.counts[(length << 3) + (units >> length - 4)] += 1
        histogram.sum_seconds += seconds

    def after_queue(self, arrived: float, started: float, answered: float) -> None:
        """Answered by its handler, after other requests of its connection."""
        kind = self.kind
        kind.counts[self.version] += 1
        kind.queue.observe(started - arrived)
        kind.local.observe(answered - started)
        kind.total.observe(answered - arrived)

    def late(self, arrived: float, started: float, handled: float, answered: float) -> None:
        kind = self.kind
        kind.counts[self.version] += 1
        if started > arrived:
            kind.queue.observe(started - arrived)
        kind.local.observe(handled - started)
        kind.remote.observe(answered - handled)
        kind.total.observe(answered - arrived)

    def failed(self, codes: Iterable[ErrorName]) -> None:
        errors = self.kind.errors
        for code in codes:
            name = code.name.upper()
            errors[name] = errors.get(name, 0) + 1


class RequestMeters:
    """Of one node, whichever listener the requests come by."""

    def __init__(self) -> None:
        self.kinds: Final[dict[str, RequestKind]] = {}

    def meter(self, api_name: str, version: int) -> RequestMeter:
        if api_name == FETCH:
            return RequestMeter(self._kind(FROM_CONSUMERS), version, self._kind(FROM_FOLLOWERS))
        return RequestMeter(self._kind(api_name), version)

    def _kind(self, name: str) -> RequestKind:
        found = self.kinds.get(name)
        if found is None:
            found = self.kinds[name] = RequestKind(name)
        return found


UNCOUNTED: Final = RequestMeter(RequestKind(""), 0)
"""Of requests that come from within the node."""
