"""What waits until the replicas have what a coordinator appended, in the order of its coming, and not for ever."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.storage.partition.partition import Partition


class _Parked:
    __slots__ = ("expires_at", "told")

    def __init__(self, told: Callable[[ErrorCode], None], expires_at: float) -> None:
        self.told: Callable[[ErrorCode], None] | None = told
        self.expires_at: Final = expires_at

    def tell(self, code: ErrorCode) -> None:
        told, self.told = self.told, None
        if told is not None:
            told(code)

    def committed(self, code: ErrorCode) -> None:
        # It is, and nobody asked a coordinator how many replicas were left at that moment.
        self.tell(ErrorCode.none if code is ErrorCode.not_enough_replicas_after_append else code)


class ParkedSteps:
    def __init__(self, partition: Partition, timeout_seconds: float) -> None:
        self._partition: Final = partition
        self._timeout_seconds: Final = timeout_seconds
        self._waiting: Final[deque[_Parked]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, end_offset: int, leader_epoch: int, told: Callable[[ErrorCode], None]) -> None:
        """`told` is called once: when everything below is committed, or cannot be, or has taken too long."""
        loop = asyncio.get_running_loop()
        parked = _Parked(told, loop.time() + self._timeout_seconds)
        self._forget_told()
        self._waiting.append(parked)
        if self._timer is None:
            self._timer = loop.call_at(parked.expires_at, self._expire)
        self._partition.when_committed(end_offset, leader_epoch, parked.committed)

    def close(self) -> None:
        """Nobody is told any more."""
        for parked in self._waiting:
            parked.told = None
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_told(self) -> None:
        while self._waiting and self._waiting[0].told is None:
            self._waiting.popleft()

    def _expire(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while True:
            self._forget_told()
            if not self._waiting or self._waiting[0].expires_at > now:
                break
            self._waiting.popleft().tell(ErrorCode.request_timed_out)
        if self._waiting and self._timer is None:
            self._timer = loop.call_at(self._waiting[0].expires_at, self._expire)
