"""`odradek up` opens the console with the cluster."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.console.browser import DESKTOP, Visitor
from tests.node_process import free_ports


def test_up_opens_the_console_with_the_cluster(browser: Any, axe: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek", "up", "--port", str(free_ports(1)[0]), "--console-port", "0"]
    with subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "cluster")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(6)]
            # The cluster first: nobody waits for a page.
            assert lines[0].startswith("ready bootstrap=")
            word, _, address = lines[-1].strip().partition(" ")
            assert word == "console"
            visitor = Visitor(browser, address.rstrip("/"), axe, DESKTOP)
            page = visitor.open("/")
            visitor.expect(page.get_by_role("status"), "All is well: 1 broker")
            assert visitor.problems == []
            visitor.close()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    left = [pid for pid in os.listdir("/proc") if pid.isdecimal() and str(tmp_path) in command_line_of(pid)]
    assert left == []


def command_line_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
