"""The commands of the demonstration, as a user would type them, and what each says."""

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
        """They run in a directory, so that what they are told is short."""
        self._bootstrap: Final = bootstrap
        self._directory: Final = directory
        self._console: Final = console

    def run(self, *words: str) -> None:
        self.run_file(*words, "--bootstrap", self._bootstrap)

    def run_file(self, *words: str) -> None:
        """Shows the command, and then its own words; its file says where the cluster is. Raises PipelineError unless
        it ends well.
        """
        self._console.print(f"\n$ odradek {_typed(words)}", style="bold", highlight=False, markup=False, soft_wrap=True)
        with subprocess.Popen([_ODRADEK, *words], cwd=self._directory, stdin=subprocess.DEVNULL) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                # It has had the same signal, and ends after its batch.
                process.wait()
                raise
        if code:
            raise PipelineError(f"odradek {_typed(words)} ended with exit code {code}")


def _typed(words: Sequence[str]) -> str:
    return " ".join(f"'{word}'" if " " in word else word for word in words)
