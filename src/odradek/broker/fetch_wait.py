"""One long poll: waits until enough bytes have come to its partitions, or its time is up."""

import asyncio
from collections.abc import Callable, Iterable

from odradek.core.replication.high_watermark import UNKNOWN_BYTES
from odradek.storage.partition.partition import Partition


class FetchWait:
    """Registered with every partition of the fetch while it waits; costs nothing while nothing happens.

    `woken` is called once, from whatever changed the partition, or by the timer.
    """

    __slots__ = ("_for_commits", "_for_end", "_missing_bytes", "_partitions", "_timer", "_woken")

    def __init__(
        self,
        partitions: Iterable[Partition],
        missing_bytes: int,
        woken: Callable[[], None],
        *,
        for_end: bool = False,
        for_commits: bool = True,
    ) -> None:
        """`for_end`: whatever is appended counts, committed or not. `for_commits`: what is committed."""
        self._partitions = tuple(partitions)
        self._for_end = for_end
        self._for_commits = for_commits
        self._missing_bytes = missing_bytes
        self._woken = woken
        self._timer: asyncio.TimerHandle | None = None

    @property
    def revision(self) -> int:
        """Grows with every change of a partition."""
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
        # Told of one change only, even if several partitions change before the waiter has looked.
        timer, self._timer = self._timer, None
        if timer is not None:
            self._leave()
            self._woken()
            # Last, because the reader waits no longer than for what comes before.
            timer.cancel()
