"""Chores come round until they are stopped, whatever one round ends with."""

import asyncio

import pytest

from odradek.server.periodic import Periodic


def test_periodic_task_runs_again_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    rounds = 0

    async def scenario() -> None:
        async def chore() -> None:
            nonlocal rounds
            rounds += 1
            raise OSError(5, "Input/output error")

        periodic = Periodic()
        periodic.every("sweeping", lambda: 1, chore)
        while rounds < 3:
            await asyncio.sleep(0.001)
        await periodic.stop()
        seen = rounds
        await asyncio.sleep(0.02)
        assert rounds == seen

    asyncio.run(scenario())
    assert "sweeping failed" in caplog.text


def test_periodic_interval_is_read_before_every_round() -> None:
    async def scenario() -> None:
        rounds = 0

        async def chore() -> None:
            nonlocal rounds
            rounds += 1

        periodic = Periodic()
        # Quick at first, and then not again for an hour.
        periodic.every("sweeping", lambda: 3_600_000 if rounds == 2 else 1, chore, first_ms=0)
        while rounds < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert rounds == 2
        await periodic.stop()

    asyncio.run(scenario())


def test_completed_task_is_not_kept() -> None:
    async def scenario() -> None:
        periodic = Periodic()
        for _ in range(100):
            periodic.once("sweeping", asyncio.sleep(0))
        async with asyncio.timeout(30):
            while periodic._tasks:
                await asyncio.sleep(0)
        hanging = asyncio.Event()

        async def wait() -> None:
            await hanging.wait()

        periodic.once("sweeping", wait())
        async with asyncio.timeout(1):
            await periodic.stop()

    asyncio.run(scenario())
