"""A rate over a few windows, and how long a client must pause to return to its limit.

Windows, expiry and rounding are Kafka's, so that a client is throttled for the same time. Times are whole milliseconds
of a monotonic clock.
"""

from math import floor
from typing import Final

DELAY_MS_MAX: Final = 2**31 - 1
"""The largest delay that fits in a response."""


class RateWindows:
    """The sum of the retained windows divided by the time that they cover, at least all of them but one.

    One more window is kept than the rate covers: the oldest may overlap with its beginning.
    """

    __slots__ = (
        "_current",
        "_expire_ms",
        "_expires_at",
        "_last_events",
        "_oldest_start",
        "_start",
        "_starts",
        "_sums",
        "_total",
        "_window_count",
        "_window_ms",
    )

    def __init__(self, window_count: int, window_ms: int, now_ms: int) -> None:
        """`now_ms` is the time of the first event."""
        self._window_count: Final = window_count
        self._window_ms: Final = window_ms
        self._expire_ms: Final = window_count * window_ms
        self._starts: Final = [now_ms]
        self._last_events: Final = [now_ms]
        self._sums: Final = [0.0]
        self._current = 0
        # Derived from the lists.
        self._start = self._oldest_start = now_ms
        self._total = 0.0
        # No window expires before this time.
        self._expires_at = now_ms + self._expire_ms

    def record(self, value: float, now_ms: int) -> None:
        if now_ms - self._start >= self._window_ms:
            self._advance(now_ms)
        current = self._current
        self._sums[current] += value
        self._last_events[current] = now_ms
        self._total += value

    def rate(self, now_ms: int) -> float:
        """Per second."""
        # First, since it drops expired windows.
        covered = self.covered_ms(now_ms)
        return self._total / (covered / 1000.0)

    def covered_ms(self, now_ms: int) -> int:
        """The time by which the sum is divided."""
        if now_ms >= self._expires_at:
            self._drop_expired(now_ms)
        elapsed = now_ms - self._oldest_start
        missing = self._window_count - 1 - elapsed // self._window_ms
        return max(elapsed + missing * self._window_ms if missing > 0 else elapsed, 1)

    def delay_ms(self, limit: float, now_ms: int) -> int:
        """The pause after which the rate is the limit again; 0 if it is not exceeded."""
        covered = self.covered_ms(now_ms)
        rate = self._total / (covered / 1000.0)
        if not rate > limit:
            return 0
        if limit <= 0:
            return DELAY_MS_MAX
        return min(floor((rate - limit) / limit * covered + 0.5), DELAY_MS_MAX)

    @property
    def last_event_ms(self) -> int:
        return self._last_events[self._current]

    def _advance(self, now_ms: int) -> None:
        self._current = current = (self._current + 1) % (self._window_count + 1)
        if current == len(self._sums):
            self._starts.append(now_ms)
            self._last_events.append(now_ms)
            self._sums.append(0.0)
        else:
            self._reset(current, now_ms)
        self._derive()

    def _drop_expired(self, now_ms: int) -> None:
        for number, last in enumerate(self._last_events):
            if now_ms - last >= self._expire_ms:
                self._reset(number, now_ms)
        self._derive()

    def _reset(self, number: int, now_ms: int) -> None:
        self._starts[number] = self._last_events[number] = now_ms
        self._sums[number] = 0.0

    def _derive(self) -> None:
        self._start = self._starts[self._current]
        self._oldest_start = min(self._starts)
        # Not only the difference: errors of rounding would add up.
        self._total = sum(self._sums)
        self._expires_at = min(self._last_events) + self._expire_ms


class TokenBucket:
    """Tokens return at the rate of the limit, up to a burst. A single large withdrawal may overdraw it."""

    __slots__ = ("_burst_seconds", "_tokens", "_updated_ms")

    def __init__(self, window_count: int, window_ms: int, now_ms: int) -> None:
        self._burst_seconds: Final = window_count * (window_ms / 1000.0)
        # It starts full; the limit determines how much that is.
        self._tokens = float("inf")
        self._updated_ms = now_ms

    def tokens(self, limit: float, now_ms: int) -> float:
        self._tokens = self.peek(limit, now_ms)
        self._updated_ms = now_ms
        return self._tokens

    def peek(self, limit: float, now_ms: int) -> float:
        """As `tokens`, but the bucket does not count as used."""
        refilled = self._tokens + limit * ((now_ms - self._updated_ms) / 1000.0)
        return min(self._burst_seconds * limit, refilled)

    def withdraw(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - count

    def delay_ms(self, limit: float, now_ms: int) -> int:
        """Until the bucket is no longer overdrawn."""
        tokens = self.tokens(limit, now_ms)
        return min(floor(-tokens / limit * 1000 + 0.5), DELAY_MS_MAX) if tokens < 0 else 0

    @property
    def last_event_ms(self) -> int:
        return self._updated_ms
