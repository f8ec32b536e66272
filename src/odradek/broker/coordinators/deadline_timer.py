"""A timer for the earliest deadline of a shard."""

import asyncio
from collections.abc import Callable
from typing import Final


class DeadlineTimer:
    """Its callback sets it again. If a deadline is postponed after `set`, the callback finds nothing to do."""

    def __init__(self, on_deadline: Callable[[], None]) -> None:
        self._on_deadline: Final = on_deadline
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0

    def set(self, at_ms: int | None, now_ms: Callable[[], int]) -> None:
        """None: there is no deadline."""
        if at_ms is None or (self._timer is not None and self._at_ms <= at_ms):
            return
        self.cancel()
        self._at_ms = at_ms
        delay_ms = max(0, at_ms - now_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._expire)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        self._on_deadline()
