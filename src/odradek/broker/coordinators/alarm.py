"""When to look at the machine's deadlines again: at the earliest of all that it was set for."""

import asyncio
from collections.abc import Callable
from typing import Final


class Alarm:
    """Whoever it wakes sets it anew. A deadline that has been put off meanwhile wakes for nothing."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake: Final = wake
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0

    def set(self, at_ms: int | None, now_ms: Callable[[], int]) -> None:
        """None: there is nothing to wake for."""
        if at_ms is None or (self._timer is not None and self._at_ms <= at_ms):
            return
        self.cancel()
        self._at_ms = at_ms
        delay_ms = max(0, at_ms - now_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._wake()
