"""DeleteRecords requests that wait until all live replicas have deleted the records.

If only the leader had deleted them, the next leader would return them again.
"""

import asyncio
from typing import Final

from odradek.base.errors import KafkaError


class DelayedDeleteRecords:
    def __init__(self) -> None:
        self._waiting: Final[list[tuple[int, asyncio.Future[int]]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait_for(self, offset: int) -> int:
        """Returns the low watermark once it has reached the offset. Raises KafkaError if this broker stops leading."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiter = (offset, done)
        self._waiting.append(waiter)
        try:
            return await done
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def on_low_watermark(self, low_watermark: int) -> None:
        for waiter in [one for one in self._waiting if one[0] <= low_watermark]:
            self._waiting.remove(waiter)
            if not waiter[1].done():
                waiter[1].set_result(low_watermark)

    def fail(self, error: KafkaError) -> None:
        for _, done in self._waiting:
            if not done.done():
                done.set_exception(KafkaError(error.code, error.message))
        self._waiting.clear()
