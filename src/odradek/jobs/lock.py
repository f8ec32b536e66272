"""One run at a time, by a lock that the system lets go of whatever becomes of the process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.cli.errors import UserError


@contextmanager
def held(file: Path, refusal: str) -> Iterator[None]:
    """Raises UserError with the refusal if another process holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(refusal) from None
        yield
    finally:
        os.close(descriptor)


def is_held(file: Path) -> bool:
    if not file.exists():
        return False
    try:
        with held(file, "held"):
            return False
    except UserError:
        return True
