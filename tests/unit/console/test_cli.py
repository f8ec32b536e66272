"""`odradek console` reports invalid options in one line, before it serves anything."""

import socket
import sys
from pathlib import Path

import pytest

from odradek.cli.main import run


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["console", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.needs("nicegui")
def test_console_refuses_other_computers_without_password_and_tls(capsys: pytest.CaptureFixture[str]) -> None:
    error = refusal(capsys, "--host", "0.0.0.0")
    assert error.startswith(
        "error: --host 0.0.0.0 is reachable from other computers: add --password-file or --oidc-issuer and --tls-"
    )


@pytest.mark.needs("nicegui")
def test_console_reports_missing_files_and_incomplete_tls_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "File not found" in refusal(capsys, "--password-file", str(tmp_path / "none"))
    assert "--tls-key: file not found" in refusal(capsys, "--tls-key", str(tmp_path / "none"))
    (tmp_path / "certificate").write_text("")
    assert "must be given together" in refusal(capsys, "--tls-certificate", str(tmp_path / "certificate"))
    assert "--bootstrap" in refusal(capsys, "--bootstrap", "host:port")


@pytest.mark.needs("nicegui")
def test_console_reports_port_already_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = refusal(capsys, "--port", str(taken.getsockname()[1]))
    assert "Address already in use" in error


def test_console_without_nicegui_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    monkeypatch.delitem(sys.modules, "odradek.console.server", raising=False)
    assert "pip install 'odradek[console]'" in refusal(capsys)
