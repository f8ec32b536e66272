"""What follows the committed log misses nothing, in whatever order things happen to the log."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from odradek.base.ports import Pool
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.core.raft.snapshot_policy import SnapshotPolicy
from odradek.host.clock import SystemClock
from odradek.quorum.loader import MetadataLoader
from odradek.quorum.store import OffsetOutOfLog

T = TypeVar("T")


class GoneLog:
    """Nothing of it is in memory, nor on the disk any more."""

    image = EMPTY_IMAGE

    def read_cached(self, start_offset: int, end_offset: int, max_bytes: int) -> None:
        return None

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> bytes:
        raise OffsetOutOfLog


class SlowThreads:
    """Calls `meanwhile` before the result of a thread arrives."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        try:
            return work()
        finally:
            self.meanwhile()


def test_snapshot_loaded_during_a_failing_log_read_is_applied() -> None:
    async def scenario() -> None:
        threads = SlowThreads()
        store: Any = GoneLog()
        failures: list[Exception] = []
        policy = SnapshotPolicy(max_bytes=1 << 20, max_interval_ms=0)
        loader = MetadataLoader(store, policy, clock=SystemClock(), executor=threads, on_failure=failures.append)
        snapshot = replace(EMPTY_IMAGE, offset=9, epoch=1)
        threads.meanwhile = lambda: loader.on_snapshot_loaded(snapshot)
        loader.on_commit(5)
        await asyncio.wait_for(loader.wait_until_applied(9), 20)
        assert loader.image is snapshot
        assert not failures

    asyncio.run(scenario())
