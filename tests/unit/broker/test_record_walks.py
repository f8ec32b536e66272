"""The walk of small batches on the event loop: compiled under load, never loaded on the event loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from odradek.base.ports import Pool
from odradek.broker import record_walks
from odradek.broker.record_walks import RecordWalks
from odradek.records.walk import INTERPRETED_WALK, compiled_walk

T = TypeVar("T")


class Threads:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return await asyncio.to_thread(work)


@pytest.mark.needs("numba")
def test_compiled_walk_is_used_after_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_walks, "LOAD_AFTER_RECORDS", 100)

    async def scenario() -> None:
        walks = RecordWalks(Threads())
        assert walks.on_loop(99) is INTERPRETED_WALK
        assert walks.on_loop(1) is INTERPRETED_WALK
        async with asyncio.timeout(120):
            while (walk := walks.on_loop(1)) is INTERPRETED_WALK:
                await asyncio.sleep(0.01)
        assert walk is compiled_walk()

    asyncio.run(scenario())


def test_it_is_loaded_once_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_walks, "LOAD_AFTER_RECORDS", 1)
    threads: list[Any] = []

    def load() -> Any:
        threads.append(threading.current_thread())
        return INTERPRETED_WALK

    monkeypatch.setattr(record_walks, "load_walk", load)

    async def scenario() -> None:
        walks = RecordWalks(Threads())
        for _ in range(3):
            walks.on_loop(1)
            await asyncio.sleep(0.01)

    asyncio.run(scenario())
    (thread,) = threads
    assert thread is not threading.main_thread()


def test_failure_to_load_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(record_walks, "LOAD_AFTER_RECORDS", 1)

    def fail() -> Any:
        raise RuntimeError("cannot compile")

    monkeypatch.setattr(record_walks, "load_walk", fail)

    async def scenario() -> None:
        walks = RecordWalks(Threads())
        walks.on_loop(1)
        async with asyncio.timeout(10):
            while not caplog.records:
                await asyncio.sleep(0.001)
        assert walks.on_loop(1) is INTERPRETED_WALK

    asyncio.run(scenario())
    assert "RuntimeError: cannot compile" in caplog.text
