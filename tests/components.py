"""What some tests need besides Python: found once, and named in the summary where it is missing.

A missing component skips the tests that need it. With CI=true it fails them instead: there, everything must be proven.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent


class ComponentMissing(Exception):
    """Says what is not there and how to get it."""


# Component name -> why it is missing.
missing: dict[str, str] = {}
_found: dict[str, object] = {}


def required_in_ci() -> bool:
    return os.environ.get("CI") == "true"


def require(name: str, resolve: Callable[[], T]) -> T:
    """What `resolve` finds, looked for once per run; its ComponentMissing skips or fails the calling test."""
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
    """Where downloads that outlive a test run are kept."""
    return Path(os.environ.get("ODRADEK_CACHE", ROOT / ".cache"))
