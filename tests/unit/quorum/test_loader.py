"""What follows the committed log misses nothing, in whatever order things happen to the log."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from odradek.base.ports import Pool
from odradek.base.record_form import UnreadableRecord
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.core.raft.snapshot_policy import SnapshotPolicy
from odradek.host.clock import SystemClock
from odradek.quorum.loader import MetadataLoader
from odradek.quorum.store import OffsetOutOfLog
from odradek.records.builder import build_batch
from odradek.records.record import InvalidRecords, Record
from odradek.records.values import build_values_batch

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


class DamagedLog:
    image = EMPTY_IMAGE

    def __init__(self, batch: bytes) -> None:
        self._batch = batch

    def read_cached(self, start_offset: int, end_offset: int, max_bytes: int) -> bytes:
        return self._batch


HOSTILE_ARRAY = b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (
            build_values_batch(
                [bytes((1, 3, 2)) + bytes(20) + HOSTILE_ARRAY], timestamp=0, base_offset=0, leader_epoch=0
            ),
            UnreadableRecord,
        ),
        (build_batch([Record(b"\0\0\0\2", b"\0\1" + bytes(4) + HOSTILE_ARRAY)], is_control=True), InvalidRecords),
    ],
    ids=["metadata record", "control record"],
)
def test_record_that_announces_billions_of_elements_fails_the_node_with_one_line(
    batch: bytes, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        store: Any = DamagedLog(bytes(batch))
        policy = SnapshotPolicy(max_bytes=1 << 20, max_interval_ms=0)
        loader = MetadataLoader(
            store, policy, clock=SystemClock(), executor=SlowThreads(), on_failure=failed.set_result
        )
        loader.on_commit(1)
        failure = await asyncio.wait_for(failed, 20)
        assert isinstance(failure, error)
        assert str(failure).count("\n") == 0

    asyncio.run(scenario())
    assert not caplog.records, "no traceback: the reason is in the error"
