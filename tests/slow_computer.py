"""Simulates a slow computer: tests that depend on its speed fail here, and not some day in CI.

    make test-slow ARGS="tests/wire"

Processes that tests start are stopped at random, as on a busy computer, mostly for a tenth of a second and now
and then for two; loops of nodes in threads of a test stall in the same way. Tests that watch for stalls are left out.
"""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.wire.stall_watch import Stalled

PAUSES_PER_S: Final = 5.0
STALLS_PER_S: Final = 7.0
LONG_ONES: Final = 0.05
STOPPED_MAX: Final = 3
LOOK_S: Final = 0.02
FAMILY_S: Final = 0.4
FROZEN: Final = "ODRADEK_FROZEN"
"""The environment variable with a directory. It has a file for each process that a test has stopped with SIGSTOP: only
the test may wake it.
"""

_CHANCE: Final = random.Random()


def _seconds() -> float:
    return _CHANCE.uniform(0.5, 2.0) if _CHANCE.random() < LONG_ONES else _CHANCE.expovariate(10.0)


# In the processes of pytest


_run: Final = asyncio.Runner.run


def run_with_stalls(runner: asyncio.Runner, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:
    return _run(runner, _beside_stalls(coro), **options)


async def _beside_stalls(work: Coroutine[Any, Any, Any]) -> Any:
    loop = asyncio.get_running_loop()

    def stall() -> None:
        time.sleep(_seconds())
        loop.call_later(_CHANCE.expovariate(STALLS_PER_S), stall)

    loop.call_soon(stall)
    return await work


_send_signal: Final = subprocess.Popen.send_signal


def send_signal_and_mark(process: subprocess.Popen[Any], number: int) -> None:
    if number == signal.SIGSTOP:
        _mark(process.pid).touch()
    elif number in (signal.SIGCONT, signal.SIGKILL):
        _mark(process.pid).unlink(missing_ok=True)
    _send_signal(process, number)


def _mark(process: int) -> Path:
    return Path(os.environ[FROZEN]) / str(process)


def pytest_configure(config: pytest.Config) -> None:
    asyncio.Runner.run = run_with_stalls  # type: ignore[method-assign]
    subprocess.Popen.send_signal = send_signal_and_mark  # type: ignore[method-assign]
    if not hasattr(config, "workerinput"):
        os.environ[FROZEN] = directory = tempfile.mkdtemp(prefix="odradek-frozen-")
        config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))
        command = [sys.executable, "-m", "tests.slow_computer", str(os.getpid())]
        config.add_cleanup(subprocess.Popen(command).terminate)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    try:
        return (yield)
    except Stalled:
        pytest.skip("it watches for stalls")


# In a separate process that is never stopped


def _descendants(ancestor: int) -> Iterator[int]:
    children = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rsplit(") ", 1)[1].split()[:2]
            if state not in "TtZ":
                children[int(parent)].append(int(stat.parent.name))
    found = [ancestor]
    for process in found:
        found += children[process]
    return (process for process in found[1:] if process != os.getpid())


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _wake(process: int) -> None:
    """Wakes it unless a test has stopped it too, even if that happens right now."""
    if not _mark(process).exists():
        _signal(process, signal.SIGCONT)
        if _mark(process).exists():
            _signal(process, signal.SIGSTOP)


def stop_now_and_then(ancestor: int) -> None:
    wake_at: dict[int, float] = {}
    family: list[int] = []
    looked_at = 0.0
    try:
        while os.getppid() == ancestor:
            now = time.monotonic()
            if now - looked_at > FAMILY_S:
                family, looked_at = list(_descendants(ancestor)), now
            for process in [one for one, at in wake_at.items() if at <= now]:
                del wake_at[process]
                _wake(process)
            if family and len(wake_at) < STOPPED_MAX and _CHANCE.random() < PAUSES_PER_S * LOOK_S:
                process = _CHANCE.choice(family)
                if process not in wake_at and not _mark(process).exists():
                    wake_at[process] = now + _seconds()
                    _signal(process, signal.SIGSTOP)
            time.sleep(LOOK_S)
    finally:
        for process in wake_at:
            _wake(process)


if __name__ == "__main__":
    # Run the cleanup on SIGTERM, so that no process stays stopped after pytest ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    stop_now_and_then(int(sys.argv[1]))
