"""Appends of a coordinator that are not committed yet, in the order of their offsets, each with a timeout."""

import asyncio
from collections import deque
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode


class PendingWrites:
    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds: Final = timeout_seconds
        # With the time at which each expires.
        self._pending: Final[deque[tuple[float, DeferredResponse]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, write: DeferredResponse) -> None:
        """`write` completes with REQUEST_TIMED_OUT if it has not completed by then."""
        loop = asyncio.get_running_loop()
        expires_at = loop.time() + self._timeout_seconds
        self._remove_completed()
        self._pending.append((expires_at, write))
        if self._timer is None:
            self._timer = loop.call_at(expires_at, self._expire)

    def close(self) -> None:
        """Cancels all of them: their callbacks are not called."""
        for _, write in self._pending:
            write.cancel()
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _remove_completed(self) -> None:
        while self._pending and self._pending[0][1].is_done:
            self._pending.popleft()

    def _expire(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while True:
            self._remove_completed()
            if not self._pending or self._pending[0][0] > now:
                break
            self._pending.popleft()[1].complete(ErrorCode.request_timed_out)
        if self._pending and self._timer is None:
            self._timer = loop.call_at(self._pending[0][0], self._expire)
