"""Checks the Java that Spark will use: JAVA_HOME, then PATH."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odradek.text.errors import UserError

VERSION_MIN: Final = 17
_TIMEOUT_S: Final = 30.0
_ADVICE: Final = "Install JDK 17 (apt install openjdk-17-jdk-headless; brew install openjdk@17), or set JAVA_HOME."


def check_java(environment: Mapping[str, str] | None = None) -> None:
    """Raises UserError if Java is missing or too old."""
    executable = _executable(os.environ if environment is None else environment)
    try:
        # All releases print the version to standard error.
        output = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"Cannot run Java at {executable} ({error}). {_ADVICE}") from None
    version = major_version(output.stderr)
    if version is None or version < VERSION_MIN:
        raise UserError(f"Spark needs Java {VERSION_MIN}, but {executable} is Java {version or 'unknown'}. {_ADVICE}")


def major_version(output: str) -> int | None:
    """17 of `openjdk version "17.0.15"`, 8 of the older form `java version "1.8.0_402"`."""
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found[1]) if found else None


def _executable(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not executable.is_file():
            raise UserError(f"JAVA_HOME is {home!r}, which has no bin/java. {_ADVICE}")
        return str(executable)
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is None:
        raise UserError(f"Spark needs Java {VERSION_MIN}, which is not installed. {_ADVICE}")
    return found
