"""Runs `odradek up` and other commands as processes."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.node_process import free_ports, is_alive

ODRADEK = (sys.executable, "-m", "odradek")
START_TIMEOUT_S = 60
CALL_TIMEOUT_S = 120
# Messages about slow nodes, which appear on a busy machine or with a slow interpreter.
REMINDERS = ("is still starting", "Still stopping", "was built without optimizations")


def free_row(count: int = 2) -> int:
    """Return the first of `count` consecutive free ports."""
    for _ in range(50):
        ports = free_ports(count)
        if ports[-1] - ports[0] == count - 1:
            return ports[0]
    raise AssertionError(f"found no {count} consecutive free ports")


@contextmanager
def up(data_dir: Path, port: int, *options: str, brokers: int = 1) -> Iterator[subprocess.Popen[str]]:
    """Run `odradek up` and wait until all brokers are ready."""
    command = [*ODRADEK, "up", "--no-console", "--data-dir", str(data_dir), "--port", str(port), *options]
    addresses = ",".join(f"127.0.0.1:{port + number}" for number in range(brokers))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"ready bootstrap={addresses}\n"
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(START_TIMEOUT_S)


def messages(process: "subprocess.Popen[str]") -> Iterator[str]:
    """Yield the lines of standard error until the process ends, without reminders."""
    assert process.stderr is not None
    return (line for line in process.stderr if not any(reminder in line for reminder in REMINDERS))


def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*ODRADEK, *arguments], capture_output=True, text=True, timeout=CALL_TIMEOUT_S)


def error_line(*arguments: str) -> str:
    finished = call(*arguments)
    assert finished.returncode == 2, finished
    (line,) = finished.stderr.splitlines()
    return line


def node_pid(data_dir: Path, number: int = 1) -> int:
    return int((data_dir / f"node-{number}" / "pid").read_text())


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
