"""Watches a node's event loop from outside while a test misbehaves: the longest time that a small request waits.

`python -m tests.wire.stall_watch PORT PID` sends a request every few milliseconds until its standard input closes, and
then prints the longest wait. It is a separate process, so that the test's own work does not count. It subtracts the
time that the node's threads and the watcher itself waited for a processor: a busy machine is not a stalled loop. All
threads count, because one that holds the interpreter lock while it waits for a processor stalls the loop, too.
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
_REQUEST = encode_request(API_VERSIONS, 0, 1, {})


class Watched(Protocol):
    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int: ...


class Stalled(AssertionError):
    """The event loop stalled for too long."""


class StallWatch:
    """Wraps what must not stall the node, and raises Stalled at the end. `program` is the module that watches."""

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
    port: int,
    pid: int,
    *,
    log_in: Callable[[RawConnection], object] = lambda _: None,
    besides: Callable[[RawConnection, int], None] = lambda *_: None,
    rounds_min: int = 0,
) -> float:
    """Returns the longest wait in milliseconds. Each round also calls `besides` with the connection and its number."""
    longest_s = 0.0
    rounds = 0
    with RawConnection(port) as connection:
        log_in(connection)
        _send_request(connection)
        print(STARTED, end="", flush=True)
        while not select.select([sys.stdin], [], [], PAUSE_S)[0] or rounds < rounds_min:
            idle = _seconds_without_processor(pid)
            began = time.monotonic()
            _send_request(connection)
            waited = time.monotonic() - began
            longest_s = max(longest_s, waited - (_seconds_without_processor(pid) - idle))
            besides(connection, rounds)
            rounds += 1
    return longest_s * 1000


def _send_request(connection: RawConnection) -> None:
    connection.send_bytes(_REQUEST)
    response = connection.receive()
    # The error code follows the correlation ID.
    assert response[4:6] == b"\0\0", response


def _seconds_without_processor(pid: int) -> float:
    """How long the node's threads and this process have waited for a processor so far."""
    tasks = [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    return sum(_run_queue_seconds(task) for task in ["/proc/self", *tasks])


def _run_queue_seconds(task: str) -> float:
    try:
        return int(Path(task, "schedstat").read_text().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


if __name__ == "__main__":
    print(watch(int(sys.argv[1]), int(sys.argv[2])))
