"""The watchdog of an event loop: it reports stalls with their cause, and nothing else."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from odradek.host.stall_watchdog import STALL_SECONDS, TICK_SECONDS, StallWatchdog

CAUSE_SECONDS = 5 * STALL_SECONDS


def stalls_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def block_the_loop() -> None:
    time.sleep(CAUSE_SECONDS)


def hold_the_interpreter() -> None:
    """One call that does not release the interpreter lock."""
    end = time.monotonic() + CAUSE_SECONDS
    while time.monotonic() < end:
        sorted(range(3_000_000), key=int)


def run(path: Path, work: Any) -> list[dict[str, Any]]:
    async def main() -> None:
        watchdog = StallWatchdog(asyncio.get_running_loop(), str(path))
        watchdog.start()
        try:
            await asyncio.sleep(0.1)
            await work()
            await asyncio.sleep(0.1)
        finally:
            watchdog.stop()

    asyncio.run(main())
    return stalls_of(path)


def test_blocking_call_on_the_loop_is_reported_with_its_stack(tmp_path: Path) -> None:
    async def work() -> None:
        block_the_loop()

    stalls = run(tmp_path / "stalls", work)
    longest = max(stalls, key=lambda stall: stall["milliseconds"])
    # It may begin shortly before the next tick is due.
    assert longest["milliseconds"] >= 1000 * (CAUSE_SECONDS - TICK_SECONDS)
    assert longest["loop"][0].endswith("in block_the_loop")
    assert Path(__file__).name in longest["loop"][0]


def test_thread_that_holds_the_interpreter_is_reported_with_its_stack(tmp_path: Path) -> None:
    async def work() -> None:
        thread = threading.Thread(target=hold_the_interpreter, name="culprit")
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.001)

    stalls = run(tmp_path / "stalls", work)
    culprits = [thread for stall in stalls for thread in stall["threads"] if thread["name"] == "culprit"]
    assert culprits
    assert any("in hold_the_interpreter" in frame for frame in culprits[0]["stack"])


def test_culprit_is_reported_if_the_loop_runs_before_the_watchdog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The watchdog's thread never gets the interpreter.
    monkeypatch.setattr(StallWatchdog, "_watch", lambda self: self._is_over.wait())
    is_over = threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            sum(range(1000))

    async def work() -> None:
        culprit.start()
        try:
            block_the_loop()
            await asyncio.sleep(3 * TICK_SECONDS)
        finally:
            is_over.set()

    culprit = threading.Thread(target=compute, name="culprit")
    stalls = run(tmp_path / "stalls", work)
    culprit.join()
    assert "culprit" in {thread["name"] for stall in stalls for thread in stall["threads"]}


def test_waiting_threads_are_not_suspected(tmp_path: Path) -> None:
    is_over = threading.Event()
    waiting = threading.Thread(target=is_over.wait, name="waiting")
    waiting.start()

    async def work() -> None:
        block_the_loop()

    try:
        stalls = run(tmp_path / "stalls", work)
    finally:
        is_over.set()
        waiting.join()
    assert stalls
    assert not any(thread["name"] == "waiting" for stall in stalls for thread in stall["threads"])


def test_running_loop_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the computer is.
    monkeypatch.setattr("odradek.host.stall_watchdog.STALL_SECONDS", 30.0)

    async def work() -> None:
        await asyncio.sleep(0.2)

    assert run(tmp_path / "stalls", work) == []
