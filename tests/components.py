"""External components that some tests need: looked up once, and listed in the summary if missing.

A missing component skips the tests that need it. With CI=true it fails them instead: there, everything must be proven.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

KAFKAJS_VERSION = "2.2.4"
GSSAPI_VERSION = "1.12.0"
ROOT = Path(__file__).resolve().parent.parent
QUIX_STREAMS_REQUIREMENTS = Path(__file__).with_name("quix_streams_requirements.txt")


class ComponentMissing(Exception):
    """States which component is missing and how to install it."""


# Component name -> why it is missing.
missing: dict[str, str] = {}
_found: dict[str, object] = {}


def required_in_ci() -> bool:
    return os.environ.get("CI") == "true"


def require(name: str, resolve: Callable[[], T]) -> T:
    """The result of `resolve`, called once per run; its ComponentMissing skips or fails the calling test."""
    if name not in _found and name not in missing:
        try:
            _found[name] = resolve()
        except ComponentMissing as problem:
            missing[name] = str(problem)
    if name in missing:
        reason = skip_reason(name)
        if required_in_ci():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    found: T = _found[name]  # type: ignore[assignment]
    return found


def skip_reason(name: str) -> str:
    return f"needs {name}: {missing[name]}"


def find_program(name: str) -> str:
    """The path of a program. Raises ComponentMissing when it is not on the PATH."""
    path = shutil.which(name)
    if path is None:
        raise ComponentMissing(f"{name} is not on the PATH")
    return path


def cache_directory() -> Path:
    """The directory for downloads that are kept between test runs."""
    return Path(os.environ.get("ODRADEK_CACHE", ROOT / ".cache"))


def kafkajs_modules() -> Path:
    """A node_modules directory with kafkajs, installed on first use."""
    find_program("node")
    directory = cache_directory() / f"kafkajs-{KAFKAJS_VERSION}"
    modules = directory / "node_modules"
    if not (modules / "kafkajs").exists():
        directory.mkdir(parents=True, exist_ok=True)
        command = [find_program("npm"), "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(directory)]
        result = subprocess.run([*command, f"kafkajs@{KAFKAJS_VERSION}"], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ComponentMissing(f"npm could not install kafkajs: {result.stderr[-500:]}")
    return modules


def gssapi_packages() -> Path:
    """A directory with the package gssapi, which has no wheels: it needs a compiler and the headers of MIT Kerberos."""
    directory = cache_directory() / f"gssapi-{GSSAPI_VERSION}-{sys.implementation.cache_tag}"
    complete = directory / ".complete"
    if not complete.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command = [*install, "--upgrade", "--target", str(directory), f"gssapi=={GSSAPI_VERSION}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ComponentMissing(f"pip could not install gssapi (Debian: libkrb5-dev, gcc): {result.stderr[-500:]}")
        complete.touch()
    return directory


def quix_streams_python() -> Path:
    """An interpreter with Quix Streams in its own environment, because it requires older clients."""
    directory = cache_directory() / "quix-streams"
    python, complete = directory / "bin" / "python", directory / ".complete"
    wanted = QUIX_STREAMS_REQUIREMENTS.read_text()
    if not complete.exists() or complete.read_text() != wanted:
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(directory)],
            [*install, "--requirement", str(QUIX_STREAMS_REQUIREMENTS)],
        ):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise ComponentMissing(f"pip could not install Quix Streams: {result.stderr[-500:]}")
        complete.write_text(wanted)
    return python
