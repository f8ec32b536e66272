"""Request metrics by API: counts by version, error codes of responses, and latencies.

Every request is counted. At low rates every request is timed, at high rates only some: each of these then represents
the requests that were skipped.
Queue time is the time before the handler started, while earlier requests of the connection ran; local time is the
handler's own on the event loop; remote time is what the response then waited for: data, replicas, disks, the
controller.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from odradek.instruments.histogram import Histogram

FETCH: Final = "Fetch"
FROM_CONSUMERS: Final = "FetchConsumer"
FROM_FOLLOWERS: Final = "FetchFollower"
MEASURED_MAX: Final = 200
"""After this many timed requests, the share of requests that are timed is halved."""
STRIDE_MAX: Final = 256


class ErrorName(Protocol):
    @property
    def name(self) -> str: ...


class RequestKind:
    """All requests to one API."""

    __slots__ = ("errors", "local", "name", "queue", "remote", "total", "versions")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.versions: Final[dict[int, RequestCount]] = {}
        self.errors: Final[dict[str, int]] = {}
        """By Kafka's name. NONE is not counted."""
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
        """Called once a minute."""
        for histogram in (self.total, self.queue, self.local, self.remote):
            histogram.mark()
        for version in self.versions.values():
            version.shorten_stride()


class RequestCount:
    """The requests to one version of an API. The connection counts each request down:

    `left -= 1`; at zero it calls `restart_stride()` and, after the response, `measure(…)`.
    """

    __slots__ = ("_counted", "_measured", "_stride", "kind", "left")

    def __init__(self, kind: RequestKind) -> None:
        self.kind: Final = kind
        self._counted = 0
        self._measured = 0
        # One of this many requests is timed.
        self._stride = 1
        self.left = 1
        """The number of requests until the next one is timed, that one included."""

    @property
    def count(self) -> int:
        return self._counted + self._stride - self.left

    def correct(self, number: int) -> None:
        """Adds `number`, which may be negative, to the count."""
        self._counted += number

    def restart_stride(self) -> None:
        self._counted += self._stride
        self._measured += 1
        if self._measured >= MEASURED_MAX:
            self._measured = 0
            self._stride = min(STRIDE_MAX, 2 * self._stride)
        self.left = self._stride

    def measure(self, arrived: float, started: float, handled: float, responded: float) -> None:
        stride, kind = self._stride, self.kind
        kind.queue.observe(started - arrived, stride)
        kind.local.observe(handled - started, stride)
        kind.remote.observe(responded - handled, stride)
        kind.total.observe(responded - arrived, stride)

    def shorten_stride(self) -> None:
        """Called once a minute, since the rate may have fallen."""
        self._counted = self.count
        self._measured = 0
        self._stride = max(1, self._stride // 2)
        self.left = self._stride


class RequestMeter:
    """Counts the requests of one connection to one version of an API."""

    __slots__ = ("_followers", "requests")

    def __init__(self, requests: RequestCount, followers: RequestCount | None = None) -> None:
        self.requests = requests
        self._followers: Final = followers

    def count_as_follower(self) -> None:
        """The connection's Fetch requests turn out to be those of a follower."""
        followers = self._followers
        if followers is not None and followers is not self.requests:
            # The current request was counted before it was decoded.
            self.requests.correct(-1)
            followers.correct(1)
            self.requests = followers

    def count_errors(self, codes: Iterable[ErrorName]) -> None:
        errors = self.requests.kind.errors
        for code in codes:
            name = code.name.upper()
            errors[name] = errors.get(name, 0) + 1


class RequestMeters:
    """The meters of one node, over all its listeners."""

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
"""For requests from within the node."""
