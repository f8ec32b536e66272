"""The warning about an interpreter that was built without optimizations."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.local.interpreter import REPORTED_BY_PARENT, find_interpreter_warning, is_optimized
from tests.components import ROOT
from tools.find_python import DEFAULT, find_python


@pytest.mark.parametrize(
    ("config_args", "base_prefix", "expected"),
    [
        ("'--enable-shared' '--enable-optimizations' '--with-lto'", "/opt/python", True),
        ("'--prefix=/opt/python' '--enable-shared'", "/opt/python", False),
        ("'--enable-shared' '--prefix=/usr'", "/usr", True),
        ("", "/opt/python", True),
    ],
    ids=["optimized", "not optimized", "package of a distribution", "unknown"],
)
def test_optimization_is_found_in_the_build_arguments(config_args: str, base_prefix: str, expected: bool) -> None:
    assert is_optimized(config_args, base_prefix) is expected


def test_warning_is_one_line_that_states_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPORTED_BY_PARENT, raising=False)
    warning = find_interpreter_warning()
    assert (warning is None) is is_optimized()
    if warning is not None:
        assert "\n" not in warning
        assert "--enable-optimizations" in warning
    monkeypatch.setenv(REPORTED_BY_PARENT, "1")
    assert find_interpreter_warning() is None


def interpreter(directory: Path, name: str, *, is_fast: bool = True, is_usable: bool = True) -> str:
    """A program that responds to the check as an interpreter of this kind does."""
    file = directory / name
    file.write_text(f"#!/bin/sh\necho {is_fast}\nexit {0 if is_usable else 1}\n")
    file.chmod(0o755)
    return str(file)


def test_make_prefers_an_optimized_interpreter(tmp_path: Path) -> None:
    slow = interpreter(tmp_path, "slow", is_fast=False)
    fast = interpreter(tmp_path, "fast")
    old = interpreter(tmp_path, "old", is_usable=False)
    missing = str(tmp_path / "missing")
    assert find_python(slow, fast) == fast
    assert find_python(old, missing, slow) == slow
    assert find_python(old, missing) == DEFAULT


def python_of(target: str, directory: Path, *arguments: str, **environment: str) -> str:
    """The interpreter with which make would create the environment of this target."""
    command = ["make", "--dry-run", "--no-print-directory", f"VENV={directory / 'venv'}", target, *arguments]
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "MAKEFLAGS", "MAKELEVEL")}
    path = f"{directory}:{known['PATH']}"
    shown = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env={**known, "PATH": path, **environment}
    ).stdout
    found = re.findall(r"^python=(\S+); ", shown, re.MULTILINE)
    assert len(found) == 1, shown
    return found[0]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_only_make_run_looks_for_an_optimized_interpreter(tmp_path: Path) -> None:
    """`make test` in a fresh checkout, which CI runs, uses the python3 on the PATH."""
    file = tmp_path / "python3"
    file.write_text("#!/bin/sh\necho optimized-python\n")
    file.chmod(0o755)
    assert python_of("run", tmp_path) == "optimized-python"
    assert python_of("test", tmp_path) == "python3"
    assert python_of("run", tmp_path, "PYTHON=python3.12") == "python3.12"
    assert python_of("run", tmp_path, PYTHON="python3.13") == "python3.13"
    file.write_text("#!/bin/sh\nexit 1\n")
    assert python_of("run", tmp_path) == "python3"


def test_check_runs_with_this_interpreter() -> None:
    assert find_python(sys.executable) == sys.executable
    command = [sys.executable, "-m", "tools.find_python"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
    assert found.strip()
