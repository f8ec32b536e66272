"""`make test-pythons`: runs `make test-fast` with every supported Python that is installed.

Each Python has an environment of its own. A Python that is missing is reported; with CI=true it is a failure.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

MAKE = os.environ.get("MAKE", "make")


def candidates(version: str) -> Iterator[str]:
    """Commands that may be this Python: those on the PATH, then pyenv's, newest first."""
    yield f"python{version}"
    yield "python3"
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    installed = sorted(root.glob(f"{version}.*/bin/python"), key=lambda path: path.stat().st_mtime, reverse=True)
    yield from map(str, installed)


def find_python(version: str) -> str | None:
    for command in candidates(version):
        code = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
        try:
            result = subprocess.run([command, "-c", code], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        found, _, executable = result.stdout.strip().partition(" ")
        if result.returncode == 0 and found == version:
            return executable
    return None


def run_fast_tests(version: str, python: str) -> bool:
    command = [MAKE, "--no-print-directory", "test-fast", f"PYTHON={python}", f"VENV=.venv-{version}"]
    return subprocess.run(command, check=False).returncode == 0


def run(
    versions: Sequence[str],
    find: Callable[[str], str | None] = find_python,
    test: Callable[[str, str], bool] = run_fast_tests,
) -> int:
    is_ci = os.environ.get("CI") == "true"
    results = {}
    for version in versions:
        python = find(version)
        if python is None:
            results[version] = "not installed"
            continue
        print(f"Python {version}: {python}", flush=True)
        results[version] = "passed" if test(version, python) else "failed"
    for version, result in results.items():
        print(f"Python {version}: {result}")
    failures = ("failed", "not installed") if is_ci or set(results.values()) == {"not installed"} else ("failed",)
    return 1 if any(result in failures for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
