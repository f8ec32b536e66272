"""Finds the Java that Spark uses: JAVA_HOME first, then PATH.

It needs only Python's standard library, so that `python -m examples.runtime.java` can report a missing Java before
anything large is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from examples.runtime.errors import EXIT_CANNOT_RUN, PipelineError

MINIMUM_VERSION = 17
HOW_TO_INSTALL = (
    "install a JDK 17 (Debian and Ubuntu: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17) "
    "or point JAVA_HOME to one"
)
VERSION_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime with its version."""

    executable: Path
    major_version: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Returns the Java that Spark uses, or raises PipelineError with instructions."""
    environment = os.environ if environment is None else environment
    executable = _executable(environment)
    try:
        # `-version` prints to stderr in every release.
        output = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_SECONDS,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise PipelineError(f"Java at {executable} does not run ({error}): {HOW_TO_INSTALL}") from error
    major_version = parse_major_version(output)
    if major_version is None:
        raise PipelineError(f"Java at {executable} does not report its version: {HOW_TO_INSTALL}")
    if major_version < MINIMUM_VERSION:
        raise PipelineError(
            f"Spark needs Java {MINIMUM_VERSION} or newer, but {executable} is Java {major_version}: {HOW_TO_INSTALL}"
        )
    return Java(executable, major_version)


def parse_major_version(output: str) -> int | None:
    """Returns 17 for `openjdk version "17.0.15"`, and 8 for the older form `java version "1.8.0_402"`."""
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else None


def _executable(environment: Mapping[str, str]) -> Path:
    java_home = environment.get("JAVA_HOME")
    if java_home:
        executable = Path(java_home) / "bin" / "java"
        if not executable.is_file():
            raise PipelineError(f"JAVA_HOME is {java_home} but there is no bin/java in it: {HOW_TO_INSTALL}")
        return executable
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is None:
        raise PipelineError(f"Spark needs Java {MINIMUM_VERSION} or newer, but none was found: {HOW_TO_INSTALL}")
    return Path(on_path)


if __name__ == "__main__":
    try:
        find_java()
    except PipelineError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        sys.exit(EXIT_CANNOT_RUN)
