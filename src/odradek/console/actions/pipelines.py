"""Starts and stops pipelines on this machine through the CLI."""

from dataclasses import dataclass
from pathlib import Path

from odradek.client.cluster import Cluster
from odradek.console.actions import run_command
from odradek.console.actions.action import Preview, Refused
from odradek.console.queries.pipelines import RUN_LOG, state_directory
from odradek.console.readings.table import inert
from odradek.text.errors import UserError, as_sentence


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
            sentence=f"Runs `odradek pipeline run {inert(str(self.file))}` on this computer,"
            " continuing after its last batch.",
            warnings=[f"It keeps running when the console stops. Its output is written to {inert(str(log))}."],
        )

    def carry_out(self, cluster: Cluster) -> str:
        return run_command.start("pipeline", ["pipeline", "run", str(self.file)], _state(self.file))


@dataclass(frozen=True, slots=True)
class StopPipeline(_OfPipeline):
    name: str = "Stop pipeline"

    def preview(self, cluster: Cluster) -> Preview:
        return Preview(
            sentence=f"Stops pipeline {inert(str(self.file))} after its current batch."
            " The next start continues from there."
        )

    def carry_out(self, cluster: Cluster) -> str:
        return run_command.stop("pipeline", ["pipeline", "stop", str(self.file)])


def _state(file: Path) -> Path:
    try:
        return state_directory(file)
    except UserError as error:
        raise Refused(as_sentence(inert(str(error)))) from None
