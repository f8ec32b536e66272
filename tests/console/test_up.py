"""`odradek up` starts the console with the cluster; the test drains and unregisters a broker there."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.console.browser import DESKTOP, Visitor
from tests.wire.up_process import free_row


def test_up_starts_the_console_where_a_broker_is_drained_and_unregistered(
    browser: Any, axe: str, tmp_path: Path
) -> None:
    data_dir = tmp_path / "cluster"
    command = [sys.executable, "-m", "odradek", "up", "--brokers", "2", "--port", str(free_row(2))]
    with subprocess.Popen(
        [*command, "--console-port", "0", "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(6)]
            # The cluster's line is first: it does not wait for the console.
            assert lines[0].startswith("ready bootstrap=")
            word, _, address = lines[-1].strip().partition(" ")
            assert word == "console"
            visitor = Visitor(browser, address.rstrip("/"), axe, DESKTOP)
            drain_and_unregister_a_broker(visitor, int((data_dir / "node-2" / "pid").read_text()))
            assert visitor.problems == []
            visitor.close()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        assert process.stderr is not None
        # An interpreter without optimizations is reported too.
        (line,) = [one for one in process.stderr.read().splitlines() if not one.startswith("warning: Python ")]
        assert "The other nodes keep running" in line
    assert "Unregister broker" in (data_dir / "console-audit.jsonl").read_text()
    left = [pid for pid in os.listdir("/proc") if pid.isdecimal() and str(tmp_path) in command_line_of(pid)]
    assert left == []


def drain_and_unregister_a_broker(visitor: Visitor, pid: int) -> None:
    page = visitor.open("/")
    visitor.expect(page.get_by_role("status"), "Healthy: 2 brokers")
    # Brokers that `up` starts have metrics enabled.
    page.get_by_role("img", name="Throughput of the last").wait_for()
    visitor.check_accessible()
    visitor.open("/topics")
    visitor.press("Create topic")
    visitor.fill("Name", "spread")
    visitor.fill("Partitions", "4")
    visitor.fill("Replicas", "1")
    visitor.press_in_dialog("Preview")
    visitor.press_in_dialog("Create topic")
    visitor.row("spread").wait_for()
    visitor.open("/brokers")
    visitor.expect(visitor.cell("2", "replicas"), "2")
    page.get_by_role("button", name="Drain Broker 2").click()
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("dialog"), "Reassigns 2 partitions")
    visitor.press_in_dialog("Reassign partitions")
    visitor.expect(page.locator(".o-message"), "2 partitions being reassigned.")
    visitor.expect(visitor.cell("2", "replicas"), "0")
    visitor.expect(visitor.cell("1", "leaders"), "4")
    os.kill(pid, signal.SIGTERM)
    page.get_by_role("button", name="Unregister Broker 2").click()
    visitor.fill("Type 2 to confirm", "2")
    visitor.press_in_dialog("Unregister broker")
    visitor.expect(page.locator(".o-message"), "Broker 2 is unregistered.")
    visitor.row("2").wait_for(state="detached")
    visitor.expect(page.get_by_role("status"), "Healthy: 1 broker")


def command_line_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
