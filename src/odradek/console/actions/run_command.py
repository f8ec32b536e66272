"""Runs `odradek` commands for the console; if a command fails, the console refuses with its message."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from odradek.console.actions.action import Refused
from odradek.console.queries.pipelines import RUN_LOG, last_line
from odradek.console.readings.table import inert
from odradek.text.errors import as_sentence

# Commands report invalid files, topics and states before Spark starts.
REFUSAL_S: Final = 5.0
STOP_S: Final = 120.0
ODRADEK: Final = (sys.executable, "-m", "odradek")


def start(what: str, arguments: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> str:
    """The command outlives the console and logs to the directory. Raises Refused if it fails at once."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / RUN_LOG
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*ODRADEK, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(environment or {}),
            start_new_session=True,
        )
    deadline = time.monotonic() + REFUSAL_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.returncode:
        said = last_line(log.read_text(errors="replace"))
        raise Refused(as_sentence(f"The {what} did not start: {inert(said) or f'see {log}'}"))
    return f"The {what} is starting. Spark takes a while to start."


def stop(what: str, arguments: Sequence[str]) -> str:
    command = [*ODRADEK, *arguments, "--timeout", str(STOP_S)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STOP_S + 30, check=False)
    except subprocess.TimeoutExpired:
        raise Refused(f"The {what} has not stopped yet. It may be in a long batch.") from None
    said = inert(last_line(done.stderr))
    if done.returncode:
        raise Refused(as_sentence(f"The {what} was not stopped: {said}"))
    return as_sentence(said)
