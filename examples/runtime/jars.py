"""The jars of Spark's Kafka connector, fetched once with Maven into the checkout's cache.

They are listed without their dependencies: the connector's parent POM refers to repositories that many networks cannot
reach, and PySpark contains everything else that it needs.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.runtime.errors import PipelineError

JARS_VARIABLE = "ODRADEK_SPARK_JARS"
DEFAULT_DIRECTORY = Path(__file__).parents[2] / ".cache" / "spark-jars"
FETCH_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Artifact:
    """Maven coordinates of one jar."""

    group: str
    name: str
    version: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"


CONNECTOR_JARS = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
)


def jars_directory() -> Path:
    """Returns the directory of the jars: ODRADEK_SPARK_JARS, or .cache/spark-jars of the checkout."""
    return Path(os.environ.get(JARS_VARIABLE) or DEFAULT_DIRECTORY).absolute()


def missing_jars(directory: Path) -> list[Artifact]:
    return [artifact for artifact in CONNECTOR_JARS if not (directory / artifact.file_name).is_file()]


def connector_jars(directory: Path, on_fetch: Callable[[Artifact], None]) -> list[Path]:
    """Returns the paths of the connector's jars, after fetching those that are missing."""
    missing = missing_jars(directory)
    if missing and shutil.which("mvn") is None:
        raise PipelineError(
            f"Spark's Kafka connector is not in {directory} and Maven is not installed to fetch it: install Maven "
            f"(apt install maven; brew install maven) or point {JARS_VARIABLE} to a directory with "
            + ", ".join(artifact.file_name for artifact in missing)
        )
    for artifact in missing:
        on_fetch(artifact)
        _fetch(artifact, directory)
    return [directory / artifact.file_name for artifact in CONNECTOR_JARS]


def _fetch(artifact: Artifact, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # Copied to a temporary directory and renamed, so that an interrupted fetch leaves no partial jar. Maven runs in
    # that empty directory because it would read a pom.xml in the current one.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as staging:
        _maven("dependency:get", "-Dtransitive=false", f"-Dartifact={artifact.coordinates}", directory=staging)
        _maven(
            "dependency:copy",
            f"-Dartifact={artifact.coordinates}",
            f"-DoutputDirectory={staging}",
            directory=staging,
        )
        fetched = Path(staging) / artifact.file_name
        if not fetched.is_file():
            raise PipelineError(f"Maven fetched {artifact.coordinates} but did not create {artifact.file_name}")
        fetched.replace(directory / artifact.file_name)


def _maven(goal: str, *arguments: str, directory: str) -> None:
    try:
        run = subprocess.run(
            ["mvn", "--quiet", "--batch-mode", goal, *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise PipelineError(f"Maven did not finish {goal} within {FETCH_TIMEOUT_SECONDS:.0f} s: try again") from error
    if run.returncode != 0:
        first_error = next((line for line in run.stdout.splitlines() if "ERROR" in line), "no reason given")
        raise PipelineError(f"Maven failed at {goal} {arguments[-1]}: {first_error.strip()}")
