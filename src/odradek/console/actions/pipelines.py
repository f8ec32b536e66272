"""Pipelines started and stopped on this machine, by the command line: what it refuses, the console refuses."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odradek.cli.errors import UserError
from odradek.client.cluster import Cluster
from odradek.console.actions.action import Preview, Refused
from odradek.console.inquiries.pipelines import RUN_LOG, last_line, state_directory
from odradek.console.readings.table import inert

# What is wrong with the file, its topics or its state is said before Spark starts.
_REFUSAL_S: Final = 5.0
_STOP_S: Final = 120.0
_COMMAND: Final = (sys.executable, "-m", "odradek", "pipeline")


@dataclass(frozen=True, slots=True)
class _OfPipeline:
    file: Path

    @property
    def target(self) -> str:
        return f"pipeline {self.file}"

    def details(self) -> dict[str, object]:
        return {}


@dataclass(frozen=True, slots=True)
class StartPipeline(_OfPipeline):
    name: str = "Start pipeline"

    def preview(self, cluster: Cluster) -> Preview:
        log = _state(self.file) / RUN_LOG
        return Preview(
            sentence=f"Runs `odradek pipeline run {inert(str(self.file))}` on this machine, on from where it was.",
            warnings=[f"It goes on when the console ends. What it says is written to {inert(str(log))}."],
        )

    def carry_out(self, cluster: Cluster) -> str:
        directory = _state(self.file)
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / RUN_LOG
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_COMMAND, "run", str(self.file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _REFUSAL_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.returncode:
            said = last_line(log.read_text(errors="replace"))
            raise Refused(f"The pipeline did not start: {inert(said) or f'see {log}'}.")
        return "The pipeline is starting: Spark takes a while."


@dataclass(frozen=True, slots=True)
class StopPipeline(_OfPipeline):
    name: str = "Stop pipeline"

    def preview(self, cluster: Cluster) -> Preview:
        return Preview(
            sentence=f"Lets pipeline {inert(str(self.file))} end after its batch. Started again, it goes on."
        )

    def carry_out(self, cluster: Cluster) -> str:
        command = [*_COMMAND, "stop", str(self.file), "--timeout", str(_STOP_S)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_STOP_S + 30, check=False)
        except subprocess.TimeoutExpired:
            raise Refused("The pipeline has not ended yet: it may be in a long batch.") from None
        said = inert(last_line(done.stderr))
        if done.returncode:
            raise Refused(f"The pipeline was not stopped: {said}.")
        return f"{said[:1].upper()}{said[1:]}."


def _state(file: Path) -> Path:
    try:
        return state_directory(file)
    except UserError as error:
        raise Refused(f"{inert(str(error))}.") from None
