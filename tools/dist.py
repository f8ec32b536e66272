"""Builds wheel and sdist, and runs the README's first five minutes against the wheel in an empty environment."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from tools.snippets import SnippetFailed, run_page

ROOT: Final = Path(__file__).parent.parent
SECTION: Final = "First five minutes"
CLIENT: Final = "confluent-kafka"
"""The Kafka client that the README's Python snippet uses."""


def main() -> int:
    dist = ROOT / "dist"
    # The wheel must be found in the new environment, not the source tree.
    os.environ.pop("PYTHONPATH", None)
    shutil.rmtree(dist, ignore_errors=True)
    _run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)])
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="odradek-dist-") as directory:
        python = _create_environment(Path(directory), wheel)
        try:
            run_page(ROOT / "README.md", python, section=SECTION)
        except SnippetFailed as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{wheel.name} and {sdist.name} are in {dist}; the README's first five minutes work with the wheel")
    return 0


def _create_environment(directory: Path, wheel: Path) -> Path:
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel), CLIENT])
    return python


def _run(command: list[str]) -> None:
    """Shows the output only of a command that fails."""
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if finished.returncode:
        sys.exit(f"{finished.stdout}\n{shlex.join(command)} failed")


if __name__ == "__main__":
    sys.exit(main())
