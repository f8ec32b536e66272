"""Requests on their way: one per destination, each with a time limit, and a pause after a failure.

A response counts only for the request that is waited for; anything late or doubled finds nobody waiting.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Waiting:
    correlation_id: int
    deadline_ms: int


class Requests:
    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._last_correlation_id = 0
        self._waiting: dict[int, _Waiting] = {}
        self._pausing: dict[int, int] = {}
        """Destinations that failed, and until when they are left alone."""

    def is_ready(self, destination: int, now_ms: int) -> bool:
        return self.ready_at_ms(destination, now_ms) <= now_ms

    def ready_at_ms(self, destination: int, now_ms: int) -> int:
        waiting = self._waiting.get(destination)
        if waiting is not None:
            return waiting.deadline_ms
        return self._pausing.get(destination, now_ms)

    def is_pausing(self, destination: int, now_ms: int) -> bool:
        return self._pausing.get(destination, now_ms) > now_ms

    def has_timed_out(self, destination: int, now_ms: int) -> bool:
        waiting = self._waiting.get(destination)
        return waiting is not None and waiting.deadline_ms <= now_ms

    def busy_until_ms(self, now_ms: int) -> int | None:
        """The latest time to which any answer is still waited for. None: for none, and none that comes late counts.

        A fetcher asks this first. An answer to a Fetch from another end of its log would cut off what came since.
        """
        self._waiting = {node: waiting for node, waiting in self._waiting.items() if waiting.deadline_ms > now_ms}
        return max((waiting.deadline_ms for waiting in self._waiting.values()), default=None)

    def sent(self, destination: int, now_ms: int, timeout_ms: int | None = None) -> int:
        self._last_correlation_id += 1
        self._pausing.pop(destination, None)
        deadline_ms = now_ms + (self._request_timeout_ms if timeout_ms is None else timeout_ms)
        self._waiting[destination] = _Waiting(self._last_correlation_id, deadline_ms)
        return self._last_correlation_id

    def answered(self, destination: int, correlation_id: int) -> bool:
        """Whether this is what was waited for."""
        waiting = self._waiting.get(destination)
        if waiting is None or waiting.correlation_id != correlation_id:
            return False
        del self._waiting[destination]
        return True

    def pause(self, destination: int, now_ms: int) -> None:
        if destination not in self._waiting:
            self._pausing[destination] = now_ms + self._retry_backoff_ms

    def forget(self, destination: int) -> None:
        self._waiting.pop(destination, None)

    def forget_all(self) -> None:
        self._waiting.clear()
        self._pausing.clear()
