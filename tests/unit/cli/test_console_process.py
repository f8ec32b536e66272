import asyncio
import socket
import sys
from pathlib import Path

import pytest

from odradek.cli.console_process import ConsoleProcess, check_console_port
from odradek.client.address import Address
from odradek.local.security_files import SecurityFiles
from odradek.text.errors import UserError

pytestmark = pytest.mark.timeout(30)

BOOTSTRAP = [Address("127.0.0.1", 9092), Address("127.0.0.1", 9093)]
SERVING = "import sys\nprint('ready http://there/', sys.argv[1:], flush=True)\nsys.stdin.read()\n"
FAILING = "import sys\nsys.stderr.write('error: not today')\nsys.exit(2)\n"
IGNORING = "import signal, sys, time\nsignal.signal(15, signal.SIG_IGN)\nprint('ready x', flush=True)\ntime.sleep(60)\n"


def console(tmp_path: Path, program: str, port: int | None = 0) -> ConsoleProcess:
    script = tmp_path / "program.py"
    script.write_text(program)
    return ConsoleProcess(tmp_path, BOOTSTRAP, port, command=(sys.executable, str(script)))


async def run_until_ready(process: ConsoleProcess, capsys: pytest.CaptureFixture[str]) -> str:
    task = asyncio.create_task(process.run())
    output = ""
    while "console " not in output:
        await asyncio.sleep(0.02)
        output += capsys.readouterr().out
    task.cancel()
    await asyncio.wait((task,))
    return output


def test_the_address_is_printed_and_the_process_stops_on_cancel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = asyncio.run(run_until_ready(console(tmp_path, SERVING), capsys))
    assert output.startswith("console http://there/ ")
    assert "'127.0.0.1:9092,127.0.0.1:9093'" in output
    assert f"'{tmp_path / 'console-audit.jsonl'}'" in output


def test_the_console_of_a_secure_cluster_requires_a_login(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMMAND_CONFIG", "of-another-cluster.properties")
    security = SecurityFiles(tmp_path)
    script = tmp_path / "program.py"
    script.write_text(
        "import os\n" + SERVING.replace("sys.argv[1:]", "sys.argv[1:], os.environ.get('ODRADEK_COMMAND_CONFIG')")
    )
    process = ConsoleProcess(tmp_path, BOOTSTRAP, 0, security=security, command=(sys.executable, str(script)))
    output = asyncio.run(run_until_ready(process, capsys))
    assert f"'--command-config', '{security.client_properties}'" in output
    assert f"'--password-file', '{security.console_password}'" in output
    assert output.strip().endswith(f"None (log in with the password in {security.console_password})")


def test_a_process_that_ignores_sigterm_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.cli.console_process._STOP_S", 0.1)
    assert asyncio.run(run_until_ready(console(tmp_path, IGNORING), capsys)) == "console x\n"


def test_a_failing_console_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(console(tmp_path, FAILING).run())
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
    assert "The cluster keeps running." in captured.err
    assert (tmp_path / "console.log").read_text() == "error: not today"


def test_a_missing_program_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(ConsoleProcess(tmp_path, BOOTSTRAP, 0, command=(str(tmp_path / "none"),)).run())
    assert "Cannot start the console: No such file" in capsys.readouterr().err


def test_a_chosen_port_must_be_free() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match="Choose another port with --console-port"),
    ):
        check_console_port(taken.getsockname()[1])
    check_console_port(0)
    check_console_port(None)
