"""Shares one query result between pages, and caches it briefly."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from odradek.client.cluster import Cluster
from odradek.console.gateway import Gateway

T = TypeVar("T")

RECENT_S: Final = 20.0


class Shared(Generic[T]):
    def __init__(self, gateway: Gateway, query: Callable[[Cluster], T], *, kept_s: float) -> None:
        self._gateway: Final = gateway
        self._query: Final = query
        self._kept_s: Final = kept_s
        self._pending: asyncio.Task[T] | None = None
        self._queried_at_s = float("-inf")

    async def get(self) -> T:
        """Returns the cached result, or awaits the pending query, or starts a new one."""
        is_stale = time.monotonic() - self._queried_at_s > self._kept_s
        if self._pending is None or (self._pending.done() and (is_stale or self._pending.exception() is not None)):
            self._queried_at_s = time.monotonic()
            self._pending = asyncio.get_running_loop().create_task(self._gateway.query(self._query))
        # A cancelled caller must not cancel the query for the others.
        return await asyncio.shield(self._pending)

    @property
    def recent(self) -> T | None:
        """The last result if it is recent, to show until the next query completes."""
        pending = self._pending
        if pending is None or not pending.done() or pending.cancelled() or pending.exception() is not None:
            return None
        return pending.result() if time.monotonic() - self._queried_at_s < RECENT_S else None

    def forget(self) -> None:
        """Invalidates the cached result after a change."""
        self._queried_at_s = float("-inf")
