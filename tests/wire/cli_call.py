"""Calls the command line in this process."""

import io
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from odradek.cli.main import run


class Outcome(NamedTuple):
    code: int
    output: bytes
    messages: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)

    @property
    def lines(self) -> list[bytes]:
        return self.output.splitlines()


class Cli:
    """Runs `odradek …` with the broker's address in the environment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes], bootstrap: str) -> None:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP", bootstrap)
        self._monkeypatch = monkeypatch
        self._capture = capture

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capture.readouterr()
        code = run(arguments)
        sys.stdout.flush()
        captured = self._capture.readouterr()
        return Outcome(code, captured.out, captured.err.decode())

    def ok(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        outcome = self(*arguments, stdin=stdin)
        assert outcome.code == 0, outcome.messages
        return outcome

    def error_line(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command that fails, and return its one error message."""
        outcome = self(*arguments, stdin=stdin)
        lines = outcome.messages.splitlines()
        assert outcome.code == 2, outcome
        assert lines[-1].startswith("error: ")
        assert sum(line.startswith("error: ") for line in lines) == 1
        return lines[-1].removeprefix("error: ")


def as_text(lines: Sequence[bytes]) -> str:
    return b"\n".join(lines).decode()
