"""Replication throttling: a rate measured over the last few windows, compared with a limit.

Copying pauses while the rate exceeds the limit. A single large response may therefore exceed it, and the pause follows.

It must not know partitions or requests. Times are seconds of a monotonic clock.
"""

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final

ALL_REPLICAS: Final = "*"


def names_replica(throttled: frozenset[str], partition: int, broker_id: int) -> bool:
    """Whether a topic's `leader.` or `follower.replication.throttled.replicas` contains this replica."""
    return bool(throttled) and (f"{partition}:{broker_id}" in throttled or ALL_REPLICAS in throttled)


@dataclass(slots=True, eq=False)
class _Sample:
    began_at: float
    last_event_at: float
    total: int


class SampledRate:
    """Like Kafka's SimpleRate: the total of the retained windows divided by the time since the oldest began, at least
    one window.

    One thread counts. Other threads read the rate, so reading changes nothing and works on a copy.
    """

    def __init__(self, window_count: int, window_seconds: float) -> None:
        self._window_count: Final = window_count
        self._window_seconds: Final = window_seconds
        self._samples: Final[deque[_Sample]] = deque(maxlen=window_count + 1)

    def count(self, amount: int, now: float) -> None:
        samples = self._samples
        if not samples or now - samples[-1].began_at >= self._window_seconds:
            samples.append(_Sample(now, now, 0))
        samples[-1].total += amount
        samples[-1].last_event_at = now

    def per_second(self, now: float) -> float:
        return self._rate_of(self._retained_samples(now), now)

    def _rate_of(self, samples: list[_Sample], now: float) -> float:
        if not samples:
            return 0.0
        return _total(samples) / max(now - samples[0].began_at, self._window_seconds)

    def falls_to(self, limit: float, now: float) -> float:
        """When the rate falls to the limit if nothing more is counted."""
        samples = self._retained_samples(now)
        if self._rate_of(samples, now) <= limit:
            return now
        # Windows that expire before that only make it earlier; at the latest all windows have expired.
        all_expired_at = samples[-1].last_event_at + self._window_count * self._window_seconds
        if limit <= 0:
            return all_expired_at
        return min(all_expired_at, samples[0].began_at + _total(samples) / limit)

    def _retained_samples(self, now: float) -> list[_Sample]:
        retained_since = now - self._window_count * self._window_seconds
        return [sample for sample in list(self._samples) if sample.last_event_at > retained_since]


def _total(samples: list[_Sample]) -> int:
    return sum(sample.total for sample in samples)


class ReplicationThrottle:
    def __init__(self, *, window_count: int, window_seconds: float) -> None:
        self._rate: Final = SampledRate(window_count, window_seconds)
        self.bytes_per_second_max: float = inf

    def count(self, size_bytes: int, now: float) -> None:
        """Counts everything that is copied of a throttled replica, also above the limit."""
        if size_bytes:
            self._rate.count(size_bytes, now)

    def is_exceeded(self, now: float) -> bool:
        return self._rate.per_second(now) > self.bytes_per_second_max

    def frees_at(self, now: float) -> float:
        """When copying may resume; now if the limit is not exceeded."""
        return self._rate.falls_to(self.bytes_per_second_max, now)
