import sys
import time
from pathlib import Path

import pytest

from examples.runtime import broker
from examples.runtime.broker import local_broker
from examples.runtime.errors import PipelineError
from tests.wire.plain_requests import until

# Replaces `odradek up`: a shell script next to the interpreter, with a child process in place of the nodes.
READY_AND_SERVING = """
echo "$@" > "$(dirname "$0")/arguments"
sleep 600 & echo $! > "$(dirname "$0")/child"
trap 'kill $!; exit 0' TERM
printf 'ready boot'; sleep 0.2; echo 'strap=127.0.0.1:9092'
echo 'Try next, in another terminal:'
wait
"""


@pytest.fixture
def up_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    return programs


def install(programs: Path, script: str) -> None:
    (programs / "odradek").write_text(f"#!/bin/bash\n{script}")
    (programs / "odradek").chmod(0o755)


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_local_broker_returns_its_address_and_is_stopped(tmp_path: Path, up_runs: Path) -> None:
    install(up_runs, READY_AND_SERVING)
    with local_broker(tmp_path / "broker") as running:
        assert running.bootstrap == "127.0.0.1:9092", "a line that comes in two pieces is read whole"
        running.raise_if_ended()
        child = int((up_runs / "child").read_text())
        assert is_running(child)
    # The kernel removes the killed child a moment later.
    until(lambda: not is_running(child), what="the end of the child")
    arguments = (up_runs / "arguments").read_text().split()
    assert arguments[:3] == ["up", "--brokers", "1"]
    assert arguments[-2:] == ["--data-dir", str(tmp_path / "broker" / "cluster")]


def test_failed_start_reports_the_reason(tmp_path: Path, up_runs: Path) -> None:
    install(up_runs, "echo 'odradek: port 9092 is taken: choose another --port' >&2; exit 2")
    with pytest.raises(PipelineError, match="exit code 2: odradek: port 9092 is taken"), local_broker(tmp_path):
        pass


def test_broker_that_is_never_ready_is_stopped(tmp_path: Path, up_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "READY_TIMEOUT_SECONDS", 4)
    install(up_runs, "echo formatting; exec sleep 600")
    with pytest.raises(PipelineError, match="not ready within 4 s: formatting"), local_broker(tmp_path):
        pass


def test_exited_broker_is_detected(tmp_path: Path, up_runs: Path) -> None:
    install(up_runs, "echo ready bootstrap=127.0.0.1:9092; sleep 0.3; echo 'odradek: node 1 ended'; exit 2")
    with local_broker(tmp_path) as running, pytest.raises(PipelineError, match="exit code 2: odradek: node 1 ended"):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            running.raise_if_ended()
            time.sleep(0.02)


def test_broker_that_ignores_sigterm_is_killed_with_its_nodes(
    tmp_path: Path, up_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "STOP_TIMEOUT_SECONDS", 0.3)
    # The script ignores SIGTERM, and its child inherits that.
    install(up_runs, "trap '' TERM" + READY_AND_SERVING.replace("trap 'kill $!; exit 0' TERM", ""))
    with local_broker(tmp_path):
        child = int((up_runs / "child").read_text())
    until(lambda: not is_running(child), what="the end of the child")


def test_missing_odradek_command_is_reported_with_instructions(tmp_path: Path, up_runs: Path) -> None:
    with pytest.raises(PipelineError, match="run make pipeline"), local_broker(tmp_path):
        pass
