"""Requests in flight: one per destination, each with a timeout, and a backoff after a failure.

A response is accepted only for the request in flight; late and duplicate responses are ignored.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _InFlight:
    correlation_id: int
    deadline_ms: int


class Requests:
    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._last_correlation_id = 0
        self._in_flight: dict[int, _InFlight] = {}
        self._backoffs: dict[int, int] = {}
        """Destinations in backoff, and until when."""

    def is_ready(self, destination: int, now_ms: int) -> bool:
        return self.ready_at_ms(destination, now_ms) <= now_ms

    def ready_at_ms(self, destination: int, now_ms: int) -> int:
        waiting = self._in_flight.get(destination)
        if waiting is not None:
            return waiting.deadline_ms
        return self._backoffs.get(destination, now_ms)

    def is_in_backoff(self, destination: int, now_ms: int) -> bool:
        return self._backoffs.get(destination, now_ms) > now_ms

    def has_timed_out(self, destination: int, now_ms: int) -> bool:
        waiting = self._in_flight.get(destination)
        return waiting is not None and waiting.deadline_ms <= now_ms

    def busy_until_ms(self, now_ms: int) -> int | None:
        """When the last request in flight times out. None: there is none.

        A fetcher checks this first: a response to a Fetch from an older log end would truncate newer records.
        """
        self._in_flight = {node: waiting for node, waiting in self._in_flight.items() if waiting.deadline_ms > now_ms}
        return max((waiting.deadline_ms for waiting in self._in_flight.values()), default=None)

    def record_send(self, destination: int, now_ms: int, timeout_ms: int | None = None) -> int:
        self._last_correlation_id += 1
        self._backoffs.pop(destination, None)
        deadline_ms = now_ms + (self._request_timeout_ms if timeout_ms is None else timeout_ms)
        self._in_flight[destination] = _InFlight(self._last_correlation_id, deadline_ms)
        return self._last_correlation_id

    def complete(self, destination: int, correlation_id: int) -> bool:
        """Whether this response belongs to the request in flight."""
        waiting = self._in_flight.get(destination)
        if waiting is None or waiting.correlation_id != correlation_id:
            return False
        del self._in_flight[destination]
        return True

    def back_off(self, destination: int, now_ms: int) -> None:
        if destination not in self._in_flight:
            self._backoffs[destination] = now_ms + self._retry_backoff_ms

    def forget(self, destination: int) -> None:
        self._in_flight.pop(destination, None)

    def clear(self) -> None:
        self._in_flight.clear()
        self._backoffs.clear()
