"""One long poll: waits until enough bytes have come to its partitions, or its time is up."""

import asyncio
from collections.abc import Iterable

from odradek.partition.partition import UNKNOWN_BYTES, Partition


class FetchWait:
    """Registered with every partition of the fetch while it waits; costs nothing while nothing happens."""

    def __init__(self, partitions: Iterable[Partition], missing_bytes: int, seen_revision: int) -> None:
        """`seen_revision` is the sum of the partitions' revisions before they were read."""
        self._partitions = tuple(partitions)
        self._missing_bytes = missing_bytes
        self._seen_revision = seen_revision
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def partition_changed(self, partition: Partition, added_bytes: int) -> None:
        self._missing_bytes -= added_bytes
        if (self._missing_bytes <= 0 or added_bytes == UNKNOWN_BYTES) and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, seconds: float) -> None:
        if sum(partition.revision for partition in self._partitions) != self._seen_revision:
            # Something came between the reading and this.
            return
        for partition in self._partitions:
            partition.watchers[self] = None
        timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        try:
            await self._woken
        finally:
            timer.cancel()
            for partition in self._partitions:
                partition.watchers.pop(self, None)

    def _expire(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)
