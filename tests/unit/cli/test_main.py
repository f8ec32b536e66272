import subprocess
import sys
from pathlib import Path

import pytest

from odradek import __version__
from odradek.cli import main
from odradek.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["start", "f"], ("f", [], "text")),
        (["start", "f", "--override", "a=b", "--override", "c=d"], ("f", ["a=b", "c=d"], "text")),
        (["start", "f", "--log-format", "json", "--override", "a=b"], ("f", ["a=b"], "json")),
        (["start", "f", "--log-format", "xml"], None),
        (["start"], None),
        (["start", "--help"], None),
        (["start", "f", "--override"], None),
        (["start", "f", "--overide", "a=b"], None),
        (["start", "f", "g"], None),
        (["start", "f", "--override", "a=b", "g"], None),
        (["stop", "f"], None),
        ([], None),
    ],
)
def test_only_a_plain_start_skips_typer(arguments: list[str], expected: object) -> None:
    assert main._parse_plain_start(arguments) == expected


def test_a_plain_start_imports_neither_typer_nor_rich_nor_numba(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom odradek.cli.main import run\n"
        "import odradek.node.run\nodradek.node.run.run_node = lambda config: 0\n"
        f"code = run(['start', {str(properties(tmp_path))!r}])\n"
        "print(code, [name for name in ('typer', 'rich', 'numba', 'pyarrow', 'odradek.client') if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "0 []\n"


def properties(directory: Path, **changes: str) -> Path:
    file = directory / "server.properties"
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": str(directory / "data"),
        **changes,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return file


def error_lines(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 2) -> list[str]:
    assert run(arguments) == code
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["toppic"], "did you mean 'topic'"),
        (["topic", "create"], "missing argument"),
        (["--nonsense"], "no such option"),
        (["start"], "missing argument"),
        (["start", "no-such.properties"], "File not found: 'no-such.properties'"),
        (["start", "/"], "is a directory"),
        (["start", "no-such.properties", "--override", "a"], "--override 'a' is not in the form KEY=VALUE"),
        (["up", "--brokers", "0"], "--brokers"),
        (["up", "--brokers", "many"], "'many' is not a number of brokers: give 1 or more, or 'auto'"),
        (["up", "--controllers", "0"], "--controllers"),
        (["format", "-t", "x", "-c", "no-such.properties"], "File not found: 'no-such.properties'"),
        (["format", "-c", "x"], "--cluster-id"),
        (["format", "-t", "x", "-c", "y", "--add-scram", "z"], "--add-scram: Failed to find equals sign"),
        (["format", "-t", "x", "-c", "y", "-s", "-N"], "mutually exclusive"),
        (["format", "-t", "x", "-c", "/etc/hostname", "-f", "a=b", "-s", "-N"], "mutually exclusive"),
        (["log", "dump", "no-such-file"], "File not found"),
    ],
)
def test_errors_are_one_line_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    (line,) = error_lines(capsys, arguments)
    assert line.startswith("error: ")
    assert expected in line.lower() or expected in line


def test_all_errors_of_a_configuration_are_reported_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = properties(tmp_path, **{"node.id": "one", "num.partitions": "-3"})
    lines = error_lines(capsys, ["start", str(file)])
    assert len(lines) == 2
    assert any(f"{file}:2: " in line and "node.id" in line for line in lines)
    assert any("num.partitions" in line for line in lines)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"odradek {__version__}\n"
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in (
        "up",
        "start",
        "format",
        "topic",
        "produce",
        "consume",
        "group",
        "txn",
        "config",
        "log",
        "random-uuid",
    ):
        assert name in shown


@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"], ["topic", "create", "--help"]])
def test_help_shows_no_value_after_a_flag(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown and "bool" not in shown


def test_bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_run_typer", lambda arguments: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run(["topic", "list"])


def test_an_interrupt_prints_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "_run_typer", interrupted)
    assert error_lines(capsys, ["topic", "list"], 130) == []


def test_random_ids_never_start_with_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(50):
        assert run(["random-uuid"]) == 0
    ids = capsys.readouterr().out.split()
    assert len(set(ids)) == 50
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)
