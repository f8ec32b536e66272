"""Many waiters share one sync; a failed sync is reported to all of them and never retried."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from odradek.base.ports import Pool
from odradek.storage.partition.group_sync import GroupSync

T = TypeVar("T")


class SlowSteps:
    """Runs work only when the test allows it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        await self.gate.wait()
        return work()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_waiters_during_a_sync_share_the_next_sync() -> None:
    async def scenario() -> None:
        executor = SlowSteps()
        synced: list[int] = []
        end = 10
        sync = GroupSync(executor, synced.append, lambda: end, lambda _: None)
        first = asyncio.ensure_future(sync.wait_for(10))
        await settle()
        end = 40
        later = [asyncio.ensure_future(sync.wait_for(offset)) for offset in (20, 30, 40)]
        await settle()
        assert not first.done()
        executor.gate.set()
        await asyncio.gather(first, *later)
        assert synced == [10, 40]

    asyncio.run(scenario())


def test_synced_offsets_need_no_wait() -> None:
    async def scenario() -> None:
        executor = SlowSteps()
        executor.gate.set()
        synced: list[int] = []
        sync = GroupSync(executor, synced.append, lambda: 10, lambda _: None)
        await sync.wait_for(10)
        await sync.wait_for(7)
        assert synced == [10]

    asyncio.run(scenario())


def test_failed_sync_is_never_retried() -> None:
    async def scenario() -> None:
        executor = SlowSteps()
        executor.gate.set()
        tries = 0
        reported: list[int] = []

        def sync_to(_: int) -> None:
            nonlocal tries
            tries += 1
            raise OSError(5, "Input/output error")

        sync = GroupSync(executor, sync_to, lambda: 10, reported.append)
        outcomes = await asyncio.gather(sync.wait_for(5), sync.wait_for(10), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [OSError, OSError]
        with pytest.raises(OSError, match="Input/output"):
            await sync.wait_for(1)
        assert (tries, reported) == (1, [])

    asyncio.run(scenario())


def test_cancelled_waiter_does_not_affect_other_waiters() -> None:
    async def scenario() -> None:
        executor = SlowSteps()
        reported: list[int] = []
        sync = GroupSync(executor, lambda _: None, lambda: 10, reported.append)
        gone = asyncio.ensure_future(sync.wait_for(10))
        stays = asyncio.ensure_future(sync.wait_for(10))
        await settle()
        gone.cancel()
        executor.gate.set()
        await stays
        assert reported == [10]

    asyncio.run(scenario())


def test_records_appended_after_a_truncation_are_synced_again() -> None:
    async def scenario() -> None:
        executor = SlowSteps()
        executor.gate.set()
        synced: list[int] = []
        sync = GroupSync(executor, synced.append, lambda: 10, lambda _: None)
        await sync.wait_for(10)
        sync.on_truncation(6)
        await sync.wait_for(6)
        assert synced == [10]
        await sync.wait_for(8)
        assert synced == [10, 10]

    asyncio.run(scenario())


def test_running_sync_counts_only_up_to_the_truncation() -> None:
    async def scenario() -> None:
        executor = SlowSteps()
        synced: list[int] = []
        reported: list[int] = []
        sync = GroupSync(executor, synced.append, lambda: 10, reported.append)
        gone, kept = asyncio.ensure_future(sync.wait_for(10)), asyncio.ensure_future(sync.wait_for(5))
        await settle()
        sync.on_truncation(6)
        await settle()
        assert gone.done()
        assert not kept.done()
        later = asyncio.ensure_future(sync.wait_for(8))
        executor.gate.set()
        await asyncio.gather(kept, later)
        assert reported == [6, 10]

    asyncio.run(scenario())
