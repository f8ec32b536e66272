"""Watches a node's event loop from outside while a test misbehaves: how long does a small question wait at worst?

`python -m tests.wire.stall_watch PORT PID` asks every few milliseconds, from a process of its own so that the test's
work does not count, until its standard input is closed, and then prints the longest wait. Time that a thread of the
node's, or the asker, spent waiting for a processor is taken off: a busy machine is not a stalled loop. All threads,
because one that holds the interpreter and is not let run keeps the loop waiting, too.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tests.components import ROOT
from tests.raw_wire import RawConnection, encode_request

STALL_MS = 100
PAUSE_S = 0.004
API_VERSIONS = 18
STARTED = "watching\n"
_QUESTION = encode_request(API_VERSIONS, 0, 1, {})


class Watched(Protocol):
    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int: ...


class Stalled(AssertionError):
    """The loop made others wait."""


class StallWatch:
    """Around what must not stall the node. Raises Stalled at its end. `program`: who watches, and with what else."""

    def __init__(self, node: Watched, program: str = "tests.wire.stall_watch", *arguments: str) -> None:
        self._command = [sys.executable, "-m", program, str(node.port), str(node.pid), *arguments]
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == STARTED
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        report, errors = self._process.communicate(timeout=30)
        if kind is not None:
            return
        assert self._process.returncode == 0, f"a well-behaved client was disturbed:\n{errors}"
        if float(report) >= STALL_MS:
            raise Stalled(f"the loop stalled for {float(report):.0f} ms")


def watch(
    port: int, pid: int, *, besides: Callable[[RawConnection, int], None] = lambda *_: None, rounds_min: int = 0
) -> float:
    """The longest wait in milliseconds. `besides`: what else to do in each round, which has a number."""
    longest_s = 0.0
    rounds = 0
    with RawConnection(port) as connection:
        _ask(connection)
        print(STARTED, end="", flush=True)
        while not select.select([sys.stdin], [], [], PAUSE_S)[0] or rounds < rounds_min:
            idle = _seconds_without_processor(pid)
            began = time.monotonic()
            _ask(connection)
            waited = time.monotonic() - began
            longest_s = max(longest_s, waited - (_seconds_without_processor(pid) - idle))
            besides(connection, rounds)
            rounds += 1
    return longest_s * 1000


def _ask(connection: RawConnection) -> None:
    connection.send_bytes(_QUESTION)
    answer = connection.receive()
    # Behind the correlation id.
    assert answer[4:6] == b"\0\0", answer


def _seconds_without_processor(pid: int) -> float:
    """How long the node's threads and this process have waited to be let run so far."""
    tasks = [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    return sum(_run_queue_seconds(task) for task in ["/proc/self", *tasks])


def _run_queue_seconds(task: str) -> float:
    try:
        return int(Path(task, "schedstat").read_text().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


if __name__ == "__main__":
    print(watch(int(sys.argv[1]), int(sys.argv[2])))
