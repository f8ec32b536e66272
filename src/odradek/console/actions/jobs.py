"""Starts and stops jobs on this machine through the CLI."""

from dataclasses import dataclass
from pathlib import Path

from odradek.client.cluster import Cluster
from odradek.console.actions import run_command
from odradek.console.actions.action import Preview, Refused
from odradek.console.queries.jobs import job_directory
from odradek.console.queries.pipelines import RUN_LOG
from odradek.console.readings.table import inert
from odradek.pipelines.job_command import AUDIT, INGEST, JobCommand
from odradek.text.errors import UserError, as_sentence


@dataclass(frozen=True, slots=True)
class _OfJob:
    job: JobCommand

    @property
    def target(self) -> str:
        return f"job {self.job} of {self.job.table}"

    def details(self) -> dict[str, object]:
        return {"topic": self.job.topic}


@dataclass(frozen=True, slots=True)
class StartJob(_OfJob):
    bootstrap: str
    """Bootstrap servers of the console's cluster: the default for the job."""
    name: str = "Start job"

    def preview(self, cluster: Cluster) -> Preview:
        log = self._directory() / RUN_LOG
        job = self.job
        # The options of the job may contain secrets.
        named = f"odradek job {job.kind}` for topic {inert(job.topic)} and {inert(str(job.table))}"
        again = "from the beginning" if job.kind == AUDIT else "continuing after its last batch"
        return Preview(
            sentence=f"Runs `{named} on this computer, {again}.",
            warnings=[f"It keeps running when the console stops. Its output is written to {inert(str(log))}."],
        )

    def carry_out(self, cluster: Cluster) -> str:
        environment = {"ODRADEK_BOOTSTRAP": self.bootstrap}
        return run_command.start("job", ["job", *self.job.arguments], self._directory(), environment)

    def _directory(self) -> Path:
        """Raises Refused if the run cannot start, so that a misspelled path creates no files."""
        try:
            directory = job_directory(self.job)
        except UserError as error:
            raise Refused(as_sentence(inert(str(error)))) from None
        needed = directory.parent if self.job.kind == AUDIT else self.job.table
        if self.job.kind != INGEST and not needed.is_dir():
            raise Refused(f"{inert(str(needed))} does not exist. Check the command given with --job.")
        return directory


@dataclass(frozen=True, slots=True)
class StopJob(_OfJob):
    name: str = "Stop job"

    def preview(self, cluster: Cluster) -> Preview:
        if self.job.kind == AUDIT:
            return Preview(
                sentence=f"Stops {inert(str(self.job))} immediately. The next start begins from the beginning."
            )
        return Preview(
            sentence=f"Stops {inert(str(self.job))} after its current batch. The next start continues from there."
        )

    def carry_out(self, cluster: Cluster) -> str:
        arguments = ["job", "stop", str(self.job.table), "--name", self.job.name]
        return run_command.stop("job", [*arguments, "--audit"] if self.job.kind == AUDIT else arguments)
