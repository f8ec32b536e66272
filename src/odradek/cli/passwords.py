"""Reads a password from a file, the environment or the terminal: on a command line, other users of the computer could
see it.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from odradek.text.errors import UserError
from odradek.text.terminal import is_terminal

VARIABLE: Final = "ODRADEK_PASSWORD"
OPTION: Final = "--password-file"

PasswordFile = Annotated[
    Path | None,
    typer.Option(
        OPTION,
        metavar="FILE",
        help=f"File with the password, or - for standard input. Default: the environment variable {VARIABLE}, or a "
        "prompt.",
    ),
]


def read_password(file: Path | None, *, confirm: bool) -> str:
    """`confirm`: a prompt requests it twice."""
    password = _read(file, confirm=confirm)
    if not password:
        raise UserError(f"The password is empty. Use {OPTION}, {VARIABLE} or the prompt.")
    return password


def _read(file: Path | None, *, confirm: bool) -> str:
    if file is not None:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text()
        except UnicodeDecodeError:
            raise UserError(f"{OPTION} {str(file)!r} is not a text file. Use a file with the password.") from None
        # An editor ends the last line.
        return text.removesuffix("\n").removesuffix("\r")
    if (given := os.environ.get(VARIABLE)) is not None:
        return given
    if not is_terminal(sys.stdin):
        raise UserError(f"No password. Use {OPTION} FILE, {OPTION} - or the environment variable {VARIABLE}.")
    entered: str = typer.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True)
    return entered
