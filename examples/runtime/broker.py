"""A local Odradek cluster for the duration of a pipeline: `odradek up` in its own process."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from examples.runtime.errors import PipelineError

READY_PREFIX = "ready bootstrap="
READY_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.05
# `odradek up` uses ports from the given one upward.
PORTS_PER_NODE = 4
# Outside the ephemeral ports, which an outgoing connection could take before the nodes listen.
LISTENING_PORTS = range(12_000, 30_000)


class LocalBroker:
    """A broker that is ready."""

    def __init__(self, bootstrap: str, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self.bootstrap = bootstrap
        self._process = process
        self._log_file = log_file

    def raise_if_ended(self) -> None:
        if self._process.poll() is not None:
            raise _ended(self._process.returncode, _whole_lines(self._log_file))


@contextlib.contextmanager
def local_broker(directory: Path, *, brokers: int = 1) -> Iterator[LocalBroker]:
    """Starts one or more brokers with their data in the directory, and waits until they are ready."""
    directory.mkdir(parents=True, exist_ok=True)
    log_file = directory / "up.log"
    command = [
        str(Path(sys.executable).with_name("odradek")),
        *("up", "--brokers", str(brokers), "--no-console", "--port", str(free_port(brokers))),
        *("--data-dir", str(directory / "cluster")),
    ]
    with log_file.open("wb") as output:
        try:
            # In its own session, so that Ctrl-C stops the pipeline first and the broker cleanly afterwards.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise PipelineError(f"cannot run {command[0]} ({error.strerror}): run make pipeline once") from error
    try:
        yield LocalBroker(_wait_until_ready(process, log_file), process, log_file)
    finally:
        _stop(process)


def free_port(nodes: int = 1) -> int:
    """Returns a port that is free together with the ports above it that the nodes need."""
    count = PORTS_PER_NODE * nodes
    for _ in range(100):
        first = random.choice(LISTENING_PORTS)
        if all(_is_free(first + step) for step in range(count)):
            return first
    raise PipelineError(f"cannot find {count} consecutive free ports on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait_until_ready(process: subprocess.Popen[bytes], log_file: Path) -> str:
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        exit_code = process.poll()
        lines = _whole_lines(log_file)
        for line in lines:
            if READY_PREFIX in line:
                return line.split(READY_PREFIX, 1)[1].split()[0]
        if exit_code is not None:
            raise _ended(exit_code, lines)
        time.sleep(POLL_SECONDS)
    raise PipelineError(f"the broker was not ready within {READY_TIMEOUT_SECONDS:.0f} s: {_last_line(lines)}")


def _whole_lines(log_file: Path) -> list[str]:
    """Returns the complete lines: the last one may still be in the middle of a write."""
    return log_file.read_text(errors="replace").rpartition("\n")[0].splitlines()


def _ended(exit_code: int, lines: list[str]) -> PipelineError:
    return PipelineError(f"the broker failed with exit code {exit_code}: {_last_line(lines)}")


def _last_line(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        # Kill the process group, which includes the supervised nodes.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
