"""One copier: Apache Kafka's unmodified TransactionalMessageCopier in its own process.

It copies up to the end of the input at its start, in transactions of which a random third is aborted, writes its
progress as lines of JSON, and exits.
"""

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Final

TRANSACTION_RECORDS: Final = 750
_MAIN: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx256M")
_END_S_MAX: Final = 60.0


class CopierFailed(Exception):
    """The copier failed, which no restart justifies."""


class Copier:
    """Runs copier processes in sequence under one transactional ID."""

    def __init__(self, libs: Path, transactional_id: str, arguments: list[str], directory: Path) -> None:
        self._id: Final = transactional_id
        self._command: Final = [
            *("java", *_FLAGS, "-cp", f"{libs}/*", _MAIN, "--transactional-id", transactional_id),
            *("--transaction-size", str(TRANSACTION_RECORDS), "--enable-random-aborts", *arguments),
        ]
        self._errors_file: Final = directory / f"{transactional_id}.errors"
        self._process: subprocess.Popen[str] | None = None
        self._status_thread: threading.Thread | None = None
        self._consumed = self._remaining = -1
        self.starts = 0

    def start(self) -> None:
        self._consumed = self._remaining = -1
        with self._errors_file.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._status_thread = threading.Thread(target=self._read_status, args=(self._process,), daemon=True)
        self._status_thread.start()
        self.starts += 1

    def _read_status(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None, "it is a pipe"
        for line in process.stdout:
            if line.startswith("{"):
                status = json.loads(line)
                self._remaining, self._consumed = status["remaining"], status["consumed"]

    @property
    def progress(self) -> float:
        """The share of the input that the current process has copied."""
        remaining, consumed = self._remaining, self._consumed
        if remaining < 0:
            return 0.0
        return consumed / (consumed + remaining) if consumed + remaining else 1.0

    def has_ended(self) -> bool:
        """Whether the process has copied everything and exited. Raises CopierFailed."""
        assert self._process is not None and self._status_thread is not None, "it was started"
        if self._process.poll() is None:
            return False
        self._status_thread.join()
        if self._process.returncode != 0 or self._remaining != 0:
            errors = "\n".join(self._errors_file.read_text(errors="replace").splitlines()[-20:])
            raise CopierFailed(
                f"{self._id} exited with {self._process.returncode}, {self._remaining} records remaining\n{errors}"
            )
        return True

    def bounce(self, *, is_hard: bool) -> None:
        self.stop(is_hard=is_hard)
        self.start()

    def stop(self, *, is_hard: bool) -> None:
        if self._process is None or self._status_thread is None:
            return
        self._process.send_signal(signal.SIGKILL if is_hard else signal.SIGTERM)
        self._process.wait(_END_S_MAX)
        self._status_thread.join()
