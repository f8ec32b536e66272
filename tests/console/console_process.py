"""Runs `odradek console` as a process."""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

_STARTED: Final = re.compile(r"console: (https?://\S+)/ ")
_START_S: Final = 60.0


class ConsoleProcess:
    def __init__(self, bootstrap: str, directory: Path, *options: str) -> None:
        self.audit_log: Final = directory / "audit.jsonl"
        self._log: Final = directory / "console.log"
        command = [sys.executable, "-m", "odradek", "console", "--bootstrap", bootstrap, "--port", "0"]
        with self._log.open("w") as log:
            self._process: Final = subprocess.Popen(
                [*command, "--audit-log", str(self.audit_log), *options], stdout=log, stderr=log
            )
        self.address: Final = self._wait()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def _wait(self) -> str:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if found := _STARTED.search(self.log):
                return found.group(1)
            time.sleep(0.05)
        self._process.kill()
        raise AssertionError(f"the console did not start: {self.log}")
