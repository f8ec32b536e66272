"""Request metrics: counts by API, version and error, and latencies."""

from collections.abc import Sequence
from typing import Final

from odradek.instruments.requests import FETCH, FROM_CONSUMERS, FROM_FOLLOWERS, RequestKind, RequestMeters
from odradek.observe.families import Family, Timed, meter, summary_ms

_DOMAIN: Final = "kafka.network"
_TYPE: Final = "RequestMetrics"
_TIMES: Final = {
    "TotalTimeMs": "total",
    "RequestQueueTimeMs": "queue",
    "LocalTimeMs": "local",
    "RemoteTimeMs": "remote",
}


def request_families(meters: RequestMeters) -> list[Family]:
    kinds: dict[str, Sequence[RequestKind]] = {name: (kind,) for name, kind in sorted(meters.kinds.items())}
    fetches = [kind for kind in meters.kinds.values() if kind.name in (FROM_CONSUMERS, FROM_FOLLOWERS)]
    if fetches:
        # Kafka counts each under both names.
        kinds[FETCH] = fetches
    return [
        meter(
            _DOMAIN,
            _TYPE,
            "RequestsPerSec",
            (
                ({"request": name, "version": str(version)}, count)
                for name, some in kinds.items()
                for version, count in sorted(_versions(some).items())
            ),
        ),
        meter(
            _DOMAIN,
            _TYPE,
            "ErrorsPerSec",
            (
                ({"request": name, "error": error}, count)
                for name, some in kinds.items()
                # But their errors only under Fetch.
                if name not in (FROM_CONSUMERS, FROM_FOLLOWERS)
                for error, count in sorted(_errors(some).items())
            ),
        ),
        *(
            summary_ms(_DOMAIN, _TYPE, bean, [_durations(name, some, part) for name, some in kinds.items()])
            for bean, part in _TIMES.items()
        ),
    ]


def _durations(name: str, kinds: Sequence[RequestKind], part: str) -> Timed:
    return Timed({"request": name}, [getattr(kind, part) for kind in kinds], sum(kind.count for kind in kinds))


def _versions(kinds: Sequence[RequestKind]) -> dict[int, int]:
    found: dict[int, int] = {}
    for kind in kinds:
        for version, requests in kind.versions.items():
            found[version] = found.get(version, 0) + requests.count
    return found


def _errors(kinds: Sequence[RequestKind]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind in kinds:
        for error, count in kind.errors.items():
            found[error] = found.get(error, 0) + count
    return found
