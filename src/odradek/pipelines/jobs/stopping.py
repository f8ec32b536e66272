"""Stops a run on this machine, which its lock file identifies."""

import os
import signal
import time
from pathlib import Path
from typing import Final

from odradek.pipelines.jobs.lock import find_holder
from odradek.text.errors import UserError

_POLL_S: Final = 0.05


def stop_holder(lock: Path, timeout_s: float) -> bool:
    """Return False if there is no run. Raises UserError if it does not stop in time."""
    running = find_holder(lock)
    if running is None:
        return False
    os.kill(running, signal.SIGTERM)
    if not wait_for_holder(lock, running, timeout_s):
        raise UserError(
            f"Process {running} is still running after {timeout_s:.0f} s. It stops when its current batch is done."
        )
    return True


def wait_for_holder(lock: Path, running: int, timeout_s: float) -> bool:
    """Return whether the process has released the lock within the timeout."""
    until = time.monotonic() + timeout_s
    while find_holder(lock) == running:
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True
