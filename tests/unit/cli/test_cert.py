"""`odradek cert`: from an authority to a certificate that clients accept."""

import json
from pathlib import Path

import pytest

from odradek.cli.main import run


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Run `odradek cert` and return its output."""
    assert run(["cert", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.fixture
def directory(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    call(capsys, "ca")
    return tmp_path


def test_certificates_are_issued_shown_checked_and_renewed(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "issue", "CN=broker-1,O=Example", "--host", "localhost", "--host", "127.0.0.1")
    assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()} == {
        "ca.pem": 0o600,
        "ca.key": 0o600,
        "broker-1.pem": 0o600,
    }
    (shown,) = json.loads(call(capsys, "show", "broker-1.pem", "--format", "json"))
    assert shown["principal"] == "User:CN=broker-1,O=Example"
    assert shown["issuer"] == "CN=Odradek CA"
    assert shown["names"] == ["localhost", "127.0.0.1"]
    assert shown["usage"] == ["serverAuth", "clientAuth"]
    assert shown["has_private_key"] and shown["days_left"] == 396
    assert "PRIVATE" not in call(capsys, "show", "broker-1.pem")
    assert "Accepted: CN=broker-1,O=Example as server at localhost" in call(
        capsys, "check", "broker-1.pem", "--host", "localhost"
    )
    before = (directory / "broker-1.pem").read_text()
    assert "Renewed broker-1.pem" in call(capsys, "renew", "broker-1.pem")
    assert (directory / "broker-1.pem").read_text() != before
    call(capsys, "check", "broker-1.pem", "--host", "127.0.0.1")


def test_problems_are_shown_with_what_clients_report(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "issue", "ann")
    assert "Accepted: CN=ann as client" in call(capsys, "check", "ann.pem")
    shown = json.loads(call(capsys, "check", "ann.pem", "--host", "broker", "--format", "json", code=1))
    assert not shown["accepted"]
    reports = [one["java"] for one in shown["findings"]]
    assert reports == [
        "Extended key usage does not permit use for TLS server authentication",
        "No name matching broker found",
    ]
    assert "unsuitable certificate purpose" in call(capsys, "check", "ann.pem", "--host", "broker", code=1)


def test_files_are_not_replaced_without_force(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = (directory / "ca.pem").read_bytes()
    for arguments in (("ca",), ("issue", "ann")):
        call(capsys, "issue", "ann", "--force")
        assert "already exists. Use --force to replace it" in call(capsys, *arguments, code=2)
    assert (directory / "ca.pem").read_bytes() == authority
    call(capsys, "ca", "--force")
    assert (directory / "ca.pem").read_bytes() != authority


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("issue", "x", "--host", "a b"), "'a b' is neither a host name nor an IP address."),
        (("issue", "O=Example,CN="), "is not a distinguished name"),
        (("issue", "x", "--ca", "none.pem"), "File not found: 'none.pem'"),
        (("renew", "ca.pem"), "is not a certificate with its private key"),
        (("show", "ca.key"), "contains a private key but no certificate"),
        (("issue", "x", "--usage", "server"), "needs the host names and addresses"),
    ],
)
def test_errors_are_one_line(
    directory: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str
) -> None:
    (line,) = call(capsys, *arguments, code=2).splitlines()
    assert expected in line


def test_names_cannot_leave_the_directory(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "issue", "CN=../../ann smith")
    assert (directory / "ann-smith.pem").exists()
