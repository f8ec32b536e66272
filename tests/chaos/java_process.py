"""Clients in a Java process that writes one line of JSON per event and reads commands from standard input."""

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
        self._reader_thread: Final = threading.Thread(target=self._read_events, name=name, daemon=True)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        self._reader_thread.start()

    def stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        try:
            self._process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader_thread.join()

    def abandon(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _send_command(self, what: str) -> None:
        assert self._process is not None and self._process.stdin is not None, "it was started"
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def _read_events(self) -> None:
        assert self._process is not None and self._process.stdout is not None, "it was started"
        for line in self._process.stdout:
            self._on_event(json.loads(line))
        if self._process.wait() != 0:
            self._report_error(f"the process ended with {self._process.returncode}: see {self._log}")

    @abstractmethod
    def _on_event(self, event: dict[str, Any]) -> None: ...

    @abstractmethod
    def _report_error(self, what: str) -> None: ...
