import subprocess
import sys
from pathlib import Path

import pytest

from examples.runtime.errors import PipelineError
from examples.runtime.java import find_java, parse_major_version
from tests.components import ROOT


def java_that_says(directory: Path, answer: str, exit_code: int = 0) -> Path:
    """A Java home whose `java -version` answers this."""
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{answer}\nEND\nexit {exit_code}\n")
    executable.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("answer", "major_version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.15" 2025-04-15', 17),
        ("command not found", None),
    ],
)
def test_reads_the_version_of_every_form(answer: str, major_version: int | None) -> None:
    assert parse_major_version(answer) == major_version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "home", 'openjdk version "21.0.1"')
    on_path = java_that_says(tmp_path / "path", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(home), "PATH": f"{on_path}/bin:/usr/bin:/bin"}).major_version == 21
    assert find_java({"PATH": f"{on_path}/bin:/usr/bin:/bin"}).major_version == 17


@pytest.mark.parametrize(
    ("answer", "exit_code", "complaint"),
    [
        ('openjdk version "11.0.22" 2024-01-16', 0, "is Java 11"),
        ("something else", 0, "does not report its version"),
        ("No Java runtime present", 1, "does not run"),
    ],
)
def test_an_unfit_java_is_refused_in_one_line(tmp_path: Path, answer: str, exit_code: int, complaint: str) -> None:
    home = java_that_says(tmp_path, answer, exit_code)
    with pytest.raises(PipelineError) as refused:
        find_java({"JAVA_HOME": str(home)})
    assert complaint in str(refused.value)
    assert "openjdk-17" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize("module", ["examples.runtime.java", "examples.orders"])
def test_the_command_without_java_ends_with_one_line_and_code_2(tmp_path: Path, module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("pipeline: Spark needs Java 17 or newer, but none was found: install")
    assert ended.stderr.count("\n") == 1
