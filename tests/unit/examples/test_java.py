import subprocess
import sys
from pathlib import Path

import pytest

from examples.runtime.errors import PipelineError
from examples.runtime.java import find_java, parse_major_version
from tests.components import ROOT


def java_home_with_output(directory: Path, output: str, exit_code: int = 0) -> Path:
    """A Java home whose `java -version` prints this."""
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}\nEND\nexit {exit_code}\n")
    executable.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("output", "major_version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.15" 2025-04-15', 17),
        ("command not found", None),
    ],
)
def test_version_is_parsed_in_every_format(output: str, major_version: int | None) -> None:
    assert parse_major_version(output) == major_version


def test_java_home_takes_precedence_over_path(tmp_path: Path) -> None:
    home = java_home_with_output(tmp_path / "home", 'openjdk version "21.0.1"')
    on_path = java_home_with_output(tmp_path / "path", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(home), "PATH": f"{on_path}/bin:/usr/bin:/bin"}).major_version == 21
    assert find_java({"PATH": f"{on_path}/bin:/usr/bin:/bin"}).major_version == 17


@pytest.mark.parametrize(
    ("output", "exit_code", "error"),
    [
        ('openjdk version "11.0.22" 2024-01-16', 0, "is Java 11"),
        ("something else", 0, "does not report its version"),
        ("No Java runtime present", 1, "does not run"),
    ],
)
def test_unsuitable_java_is_rejected_in_one_line(tmp_path: Path, output: str, exit_code: int, error: str) -> None:
    home = java_home_with_output(tmp_path, output, exit_code)
    with pytest.raises(PipelineError) as refused:
        find_java({"JAVA_HOME": str(home)})
    assert error in str(refused.value)
    assert "openjdk-17" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_java_home_without_java_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize("module", ["examples.runtime.java", "examples.orders"])
def test_missing_java_exits_with_one_line_and_code_2(tmp_path: Path, module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("pipeline: Spark needs Java 17 or newer, but none was found: install")
    assert ended.stderr.count("\n") == 1
