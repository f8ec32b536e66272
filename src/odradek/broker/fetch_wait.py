"""One waiting Fetch: it waits until its partitions have enough bytes, or for max.wait."""

import asyncio
from collections.abc import Callable, Iterable

from odradek.core.replication.high_watermark import UNKNOWN_BYTES
from odradek.storage.partition.partition import Partition


class FetchWait:
    """Registered with every partition of the Fetch while it waits, so that waiting costs nothing.

    `on_wake` is called once, by the change of a partition or by the timer.
    """

    __slots__ = ("_for_commits", "_for_end", "_missing_bytes", "_on_wake", "_partitions", "_timer")

    def __init__(
        self,
        partitions: Iterable[Partition],
        missing_bytes: int,
        on_wake: Callable[[], None],
        *,
        for_end: bool = False,
        for_commits: bool = True,
    ) -> None:
        """`for_end`: wakes for appended records, committed or not. `for_commits`: wakes for committed records."""
        self._partitions = tuple(partitions)
        self._for_end = for_end
        self._for_commits = for_commits
        self._missing_bytes = missing_bytes
        self._on_wake = on_wake
        self._timer: asyncio.TimerHandle | None = None

    @property
    def revision(self) -> int:
        """Grows with every change of one of the partitions."""
        return sum(partition.revision for partition in self._partitions)

    def begin(self, seconds: float) -> None:
        for partition in self._partitions:
            if self._for_end:
                partition.end_watchers[self] = None
            if self._for_commits:
                partition.watchers[self] = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._wake)

    def on_partition_change(self, partition: Partition, added_bytes: int) -> None:
        self._missing_bytes -= added_bytes
        if self._missing_bytes <= 0 or added_bytes == UNKNOWN_BYTES:
            self._wake()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._leave()

    def _leave(self) -> None:
        for partition in self._partitions:
            if self._for_end:
                partition.end_watchers.pop(self, None)
            if self._for_commits:
                partition.watchers.pop(self, None)

    def _wake(self) -> None:
        # Called once even if several partitions change before the Fetch is served.
        timer, self._timer = self._timer, None
        if timer is not None:
            self._leave()
            self._on_wake()
            # Last, because it must not delay the response.
            timer.cancel()
