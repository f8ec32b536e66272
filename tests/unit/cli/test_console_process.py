import asyncio
import socket
import sys
from pathlib import Path

import pytest

from odradek.cli.console_beside import ConsoleBeside, check_console_port
from odradek.client.address import Address
from odradek.text.errors import UserError

pytestmark = pytest.mark.timeout(30)

BOOTSTRAP = [Address("127.0.0.1", 9092), Address("127.0.0.1", 9093)]
SERVING = "import sys\nprint('ready http://there/', sys.argv[1:], flush=True)\nsys.stdin.read()\n"
FAILING = "import sys\nsys.stderr.write('error: not today')\nsys.exit(2)\n"
IGNORING = "import signal, sys, time\nsignal.signal(15, signal.SIG_IGN)\nprint('ready x', flush=True)\ntime.sleep(60)\n"


def beside(tmp_path: Path, program: str, port: int | None = 0) -> ConsoleBeside:
    script = tmp_path / "program.py"
    script.write_text(program)
    return ConsoleBeside(tmp_path, BOOTSTRAP, port, command=(sys.executable, str(script)))


async def run_until_it_speaks(console: ConsoleBeside, capsys: pytest.CaptureFixture[str]) -> str:
    task = asyncio.create_task(console.run())
    told = ""
    while "console " not in told:
        await asyncio.sleep(0.02)
        told += capsys.readouterr().out
    task.cancel()
    await asyncio.wait((task,))
    return told


def test_the_address_is_told_and_the_process_ends_with_us(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = asyncio.run(run_until_it_speaks(beside(tmp_path, SERVING), capsys))
    assert told.startswith("console http://there/ ")
    assert "'127.0.0.1:9092,127.0.0.1:9093'" in told
    assert f"'{tmp_path / 'console-audit.jsonl'}'" in told


def test_who_does_not_want_to_end_is_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.cli.console_beside._STOP_S", 0.1)
    assert asyncio.run(run_until_it_speaks(beside(tmp_path, IGNORING), capsys)) == "console x\n"


def test_a_console_that_fails_is_told_in_a_line_and_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(beside(tmp_path, FAILING).run())
    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert "the cluster goes on" in told.err
    assert (tmp_path / "console.log").read_text() == "error: not today"


def test_a_program_that_is_not_there_is_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(ConsoleBeside(tmp_path, BOOTSTRAP, 0, command=(str(tmp_path / "none"),)).run())
    assert "could not be started: No such file" in capsys.readouterr().err


def test_a_port_that_was_chosen_has_to_be_free() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match="choose another --console-port"),
    ):
        check_console_port(taken.getsockname()[1])
    check_console_port(0)
    check_console_port(None)
