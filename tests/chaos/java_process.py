"""Clients in a process of Java's that tells of every event in a line of JSON, and is told in a line what to finish."""

import json
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_END_S_MAX: Final = 120.0


class JavaProcess(ABC):
    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self._command: Final = command
        self._log: Final = log
        self._process: subprocess.Popen[str] | None = None
        self._listener: Final = threading.Thread(target=self._listen, name=name, daemon=True)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        self._listener.start()

    def stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        try:
            self._process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._listener.join()

    def abandon(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _tell(self, what: str) -> None:
        assert self._process is not None and self._process.stdin is not None, "it was started"
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None, "it was started"
        for line in self._process.stdout:
            self._note(json.loads(line))
        if self._process.wait() != 0:
            self._complain(f"the process ended with {self._process.returncode}: see {self._log}")

    @abstractmethod
    def _note(self, event: dict[str, Any]) -> None: ...

    @abstractmethod
    def _complain(self, what: str) -> None: ...
