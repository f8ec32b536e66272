"""Asking a run of this machine to end, by the lock that it holds."""

import os
import signal
import time
from pathlib import Path
from typing import Final

from odradek.cli.errors import UserError
from odradek.jobs.lock import holder

_LOOK_S: Final = 0.05


def stop_holder(lock: Path, timeout_s: float) -> bool:
    """False: nobody runs. Raises UserError if it goes on running."""
    running = holder(lock)
    if running is None:
        return False
    os.kill(running, signal.SIGTERM)
    until = time.monotonic() + timeout_s
    while holder(lock) == running:
        if time.monotonic() > until:
            raise UserError(f"process {running} still runs after {timeout_s:.0f} s: it may be in a long batch")
        time.sleep(_LOOK_S)
    return True
