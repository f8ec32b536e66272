"""What is refused at the start is refused in one line, before anything is served."""

import socket
import sys
from pathlib import Path

import pytest

from odradek.cli.main import run


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["console", *arguments]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1, told
    return told[0]


@pytest.mark.needs("nicegui")
def test_other_machines_are_not_served_without_password_and_tls(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, "--host", "0.0.0.0")
    assert told.startswith(
        "error: --host 0.0.0.0 is reachable from other computers: add --password-file or --oidc-issuer and --tls-"
    )


@pytest.mark.needs("nicegui")
def test_files_that_are_not_there_and_half_a_certificate_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "File not found" in refusal(capsys, "--password-file", str(tmp_path / "none"))
    assert "--tls-key: file not found" in refusal(capsys, "--tls-key", str(tmp_path / "none"))
    (tmp_path / "certificate").write_text("")
    assert "must be given together" in refusal(capsys, "--tls-certificate", str(tmp_path / "certificate"))
    assert "--bootstrap" in refusal(capsys, "--bootstrap", "host:port")


@pytest.mark.needs("nicegui")
def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = refusal(capsys, "--port", str(taken.getsockname()[1]))
    assert "Address already in use" in told


def test_without_the_extra_it_is_said_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    monkeypatch.delitem(sys.modules, "odradek.console.server", raising=False)
    assert "pip install 'odradek[console]'" in refusal(capsys)
