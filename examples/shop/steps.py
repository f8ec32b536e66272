"""Runs the commands of the example, as a user would type them, and shows their output."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from examples.runtime.errors import PipelineError

_ODRADEK: Final = str(Path(sys.executable).with_name("odradek"))


class Commands:
    def __init__(self, bootstrap: str, directory: Path, console: Console) -> None:
        """Commands run in `directory`, so that their arguments are short."""
        self._bootstrap: Final = bootstrap
        self._directory: Final = directory
        self._console: Final = console

    def run(self, *words: str) -> None:
        self.run_file(*words, "--bootstrap", self._bootstrap)

    def run_file(self, *words: str) -> None:
        """Runs a command whose pipeline file contains the bootstrap servers. Raises PipelineError if it fails."""
        self._console.print(f"\n$ odradek {_typed(words)}", style="bold", highlight=False, markup=False, soft_wrap=True)
        with subprocess.Popen([_ODRADEK, *words], cwd=self._directory, stdin=subprocess.DEVNULL) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                # The command received the same signal and stops after its batch.
                process.wait()
                raise
        if code:
            raise PipelineError(f"odradek {_typed(words)} failed with exit code {code}")


def _typed(words: Sequence[str]) -> str:
    return " ".join(f"'{word}'" if " " in word else word for word in words)
