"""A file lock for one run at a time. The system releases it when the process ends. The file contains the PID."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from odradek.text.errors import UserError

_TRIES: Final = 3
_PAUSE_S: Final = 0.05


@contextmanager
def hold_lock(file: Path, refusal: str) -> Iterator[None]:
    """Hold the lock. Raises UserError with this message if another process holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # `find_holder` takes the lock for a moment.
        for _ in range(_TRIES):
            if _lock(descriptor):
                break
            time.sleep(_PAUSE_S)
        else:
            raise UserError(refusal)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def find_holder(file: Path) -> int | None:
    """Return the PID of the process that holds the lock, or None."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        for _ in range(_TRIES):
            if _lock(descriptor):
                return None
            named = os.pread(descriptor, 20, 0)
            if named:
                return int(named)
            time.sleep(_PAUSE_S)
        raise UserError(f"Lock {str(file)!r} is held, but does not name its process. Try again.")
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
