import io
import sys
from pathlib import Path

import pytest

from odradek.cli.passwords import read_password
from odradek.text.errors import UserError


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_PASSWORD", raising=False)


@pytest.mark.parametrize(
    ("content", "password"),
    [
        ("secret", "secret"),
        ("secret\n", "secret"),
        ("secret\r\n", "secret"),
        (" spaces and ünïcödé \n", " spaces and ünïcödé "),
        ("two\nlines\n", "two\nlines"),
    ],
)
def test_last_line_break_of_a_password_file_is_left_out(tmp_path: Path, content: str, password: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content.encode())
    assert read_password(file, confirm=True) == password.replace("\r\n", "\n")


def test_password_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
    assert read_password(Path("-"), confirm=True) == "secret"


def test_file_takes_precedence_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_PASSWORD", "from the environment")
    assert read_password(None, confirm=True) == "from the environment"
    (tmp_path / "password").write_text("from the file")
    assert read_password(tmp_path / "password", confirm=True) == "from the file"


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_empty_password_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "password").write_bytes(content)
    with pytest.raises(UserError, match="The password is empty"):
        read_password(tmp_path / "password", confirm=True)


def test_binary_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not a text file"):
        read_password(tmp_path / "password", confirm=True)


def test_no_password_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(UserError, match=r"No password\. Use --password-file FILE"):
        read_password(None, confirm=True)
