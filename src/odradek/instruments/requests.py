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

    __slots__ = ("at_once", "errors", "local", "name", "queue", "remote", "total", "versions")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.versions: Final[dict[int, RequestCount]] = {}
        self.errors: Final[dict[str, int]] = {}
        """By name, as Kafka spells it. Success is no error."""
        self.at_once: Final = Histogram()
        # Of those only that waited for something.
        self.queue: Final = Histogram()
        self.local: Final = Histogram()
        self.remote: Final = Histogram()
        self.total: Final = Histogram()

    def version(self, version: int) -> "RequestCount":
        found = self.versions.get(version)
        if found is None:
            found = self.versions[version] = RequestCount(self)
        return found

    def mark(self) -> None:
        """Once a minute."""
        for histogram in (self.at_once, self.queue, self.local, self.remote, self.total):
            histogram.mark()


class RequestCount:
    """The requests of one kind that came in one version."""

    __slots__ = ("at_once", "count", "kind")

    def __init__(self, kind: RequestKind) -> None:
        self.kind: Final = kind
        self.at_once: Final = kind.at_once
        self.count = 0


class RequestMeter:
    """What counts the requests of one connection to one version of an API."""

    __slots__ = ("_followers", "_requests")

    def __init__(self, requests: RequestCount, followers: RequestCount | None = None) -> None:
        self._requests = requests
        self._followers: Final = followers

    def is_follower(self) -> None:
        """It turned out who asks, and does so from now on."""
        if self._followers is not None:
            self._requests = self._followers

    def at_once(self, seconds: float) -> None:
        """Answered by its handler, which nothing had kept from beginning."""
        requests = self._requests
        requests.count += 1
        # As `Histogram.observe`: the most frequent of all calls is spared one.
        histogram = requests.at_once
        units = int(seconds * UNITS_PER_SECOND) + 8
        length = units.bit_length()
        histogram.counts[(length << 3) + (units >> length - 4)] += 1
        histogram.sum_seconds += seconds

    def after_queue(self, arrived: float, started: float, answered: float) -> None:
        """Answered by its handler, maybe after other requests of its connection."""
        if arrived == started:
            self.at_once(answered - started)
            return
        kind = self._count()
        kind.queue.observe(started - arrived)
        kind.local.observe(answered - started)
        kind.total.observe(answered - arrived)

    def late(self, arrived: float, started: float, handled: float, answered: float) -> None:
        kind = self._count()
        if started > arrived:
            kind.queue.observe(started - arrived)
        kind.local.observe(handled - started)
        kind.remote.observe(answered - handled)
        kind.total.observe(answered - arrived)

    def _count(self) -> RequestKind:
        self._requests.count += 1
        return self._requests.kind

    def failed(self, codes: Iterable[ErrorName]) -> None:
        errors = self._requests.kind.errors
        for code in codes:
            name = code.name.upper()
            errors[name] = errors.get(name, 0) + 1


class RequestMeters:
    """Of one node, whichever listener the requests come by."""

    def __init__(self) -> None:
        self.kinds: Final[dict[str, RequestKind]] = {}

    def meter(self, api_name: str, version: int) -> RequestMeter:
        if api_name == FETCH:
            return RequestMeter(
                self._kind(FROM_CONSUMERS).version(version), self._kind(FROM_FOLLOWERS).version(version)
            )
        return RequestMeter(self._kind(api_name).version(version))

    def _kind(self, name: str) -> RequestKind:
        found = self.kinds.get(name)
        if found is None:
            found = self.kinds[name] = RequestKind(name)
        return found


UNCOUNTED: Final = RequestMeter(RequestKind("").version(0))
"""Of requests that come from within the node."""
