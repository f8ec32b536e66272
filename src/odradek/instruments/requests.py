"""Requests by name: how many of which version, which errors they were answered with, and where their time went.

Every request is counted, and while they are few the time of every one is taken; of very many only that of some, each
of which then stands for as many as were left out.
Of a request's time the queue is that before its handler began, because others of its connection came first; local is
the handler's own on the event loop; remote is what the answer then waited for: data, replicas, disks, the controller.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from odradek.instruments.histogram import Histogram

FETCH: Final = "Fetch"
FROM_CONSUMERS: Final = "FetchConsumer"
FROM_FOLLOWERS: Final = "FetchFollower"
MEASURED_MAX: Final = 200
"""Requests whose time is taken before that is done for half of them only, from then on."""
STRIDE_MAX: Final = 256


class ErrorName(Protocol):
    @property
    def name(self) -> str: ...


class RequestKind:
    """All requests of one name."""

    __slots__ = ("errors", "local", "name", "queue", "remote", "total", "versions")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.versions: Final[dict[int, RequestCount]] = {}
        self.errors: Final[dict[str, int]] = {}
        """By name, as Kafka spells it. Success is no error."""
        self.total: Final = Histogram()
        self.queue: Final = Histogram()
        self.local: Final = Histogram()
        self.remote: Final = Histogram()

    @property
    def count(self) -> int:
        return sum(version.count for version in self.versions.values())

    def version(self, version: int) -> "RequestCount":
        found = self.versions.get(version)
        if found is None:
            found = self.versions[version] = RequestCount(self)
        return found

    def mark(self) -> None:
        """Once a minute."""
        for histogram in (self.total, self.queue, self.local, self.remote):
            histogram.mark()
        for version in self.versions.values():
            version.calm_down()


class RequestCount:
    """The requests of one kind that came in one version. Whoever takes one up counts it off:

    `left -= 1`, and where nothing is left, `begin_again()` and, when it is answered, `measured(…)`.
    """

    __slots__ = ("_counted", "_measured", "_stride", "kind", "left")

    def __init__(self, kind: RequestKind) -> None:
        self.kind: Final = kind
        self._counted = 0
        self._measured = 0
        # Of so many requests one is measured.
        self._stride = 1
        self.left = 1
        """How many are counted off until the next is measured, that one included."""

    @property
    def count(self) -> int:
        return self._counted + self._stride - self.left

    def correct(self, number: int) -> None:
        """So many more there were, or fewer."""
        self._counted += number

    def begin_again(self) -> None:
        self._counted += self._stride
        self._measured += 1
        if self._measured >= MEASURED_MAX:
            self._measured = 0
            self._stride = min(STRIDE_MAX, 2 * self._stride)
        self.left = self._stride

    def measured(self, arrived: float, started: float, handled: float, answered: float) -> None:
        stride, kind = self._stride, self.kind
        kind.queue.observe(started - arrived, stride)
        kind.local.observe(handled - started, stride)
        kind.remote.observe(answered - handled, stride)
        kind.total.observe(answered - arrived, stride)

    def calm_down(self) -> None:
        """Now and then: there may be fewer of them by now."""
        self._counted = self.count
        self._measured = 0
        self._stride = max(1, self._stride // 2)
        self.left = self._stride


class RequestMeter:
    """What counts the requests of one connection to one version of an API."""

    __slots__ = ("_followers", "requests")

    def __init__(self, requests: RequestCount, followers: RequestCount | None = None) -> None:
        self.requests = requests
        self._followers: Final = followers

    def is_follower(self) -> None:
        """It turns out who asks, and will ask from now on."""
        followers = self._followers
        if followers is not None and followers is not self.requests:
            # The one that is being handled was counted before anybody had looked into it.
            self.requests.correct(-1)
            followers.correct(1)
            self.requests = followers

    def failed(self, codes: Iterable[ErrorName]) -> None:
        errors = self.requests.kind.errors
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
