"""Jars and their dependencies, downloaded once with Maven into the cache."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.components import ComponentMissing, cache_directory, find_program

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>odradek</groupId>
  <artifactId>test-component</artifactId>
  <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""


class Artifact(NamedTuple):
    group: str
    name: str
    version: str
    classifier: str = ""

    @property
    def dependency(self) -> str:
        tags = {"groupId": self.group, "artifactId": self.name, "version": self.version, "classifier": self.classifier}
        return f"<dependency>{''.join(f'<{tag}>{text}</{tag}>' for tag, text in tags.items() if text)}</dependency>"


def fetched_jars(name: str, artifacts: Sequence[Artifact]) -> Path:
    """The directory of the cache that holds them. Raises ComponentMissing without Maven, or if it fails."""
    libs = cache_directory() / name
    complete = libs / ".complete"
    wanted = " ".join(":".join(one).rstrip(":") for one in artifacts)
    if not complete.exists() or complete.read_text() != wanted:
        _fetch(libs, artifacts)
        complete.write_text(wanted)
    return libs


def _fetch(libs: Path, artifacts: Sequence[Artifact]) -> None:
    maven = find_program("mvn")
    libs.mkdir(parents=True, exist_ok=True)
    pom = libs / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(one.dependency for one in artifacts)))
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ComponentMissing(f"Maven could not fetch {libs.name}: {result.stdout[-500:]}")
