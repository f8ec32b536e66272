"""A node in a process of its own, which ends with the test whatever happens to the test."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.local.node_files import NodeFiles
from odradek.local.supervisor import READY
from odradek.testing.child import TOLD
from odradek.testing.circumstances import Circumstances
from odradek.testing.errors import ClusterError
from odradek.testing.member import STOP_SECONDS_MAX

if TYPE_CHECKING:
    from odradek.config.node_config import NodeConfig

_LOG_LINES: Final = 12
_ANSWER_SECONDS_MAX: Final = 10.0


class ProcessMember:
    def __init__(self, node_id: int, directory: Path, properties: Mapping[str, str]) -> None:
        self.node_id = node_id
        self._files: Final = NodeFiles(directory, node_id)
        self._overrides: Final = [f"{key}={value}" for key, value in properties.items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._was_ended = False
        self._is_paused = False
        self._said = b""
        """What it wrote to its standard output, and nobody has taken note of yet."""
        self._answers_due = 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def end(self) -> str:
        if self._process is None or self.is_running or self._was_ended:
            return ""
        return self._last_words(self._process)

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        lines = self._files.last_log_lines(0, _LOG_LINES)
        return "\n".join((f"exit code {process.returncode}; its log ends with:", *lines))

    def prepare(self) -> None:
        self._files.directory.mkdir(parents=True, exist_ok=True)
        with self._files.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "odradek.testing.child", str(self._files.properties), *self._overrides],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C is the test's, and the node's process must not be gone before the test is done with it.
                start_new_session=True,
            )
        self._was_ended = self._is_paused = False
        self._said = b""
        self._answers_due = 0

    def begin(self, config: "NodeConfig", circumstances: Circumstances) -> None:
        if not self.is_running:
            self._close_pipes()
            self.prepare()
        try:
            self._tell(circumstances)
        except BrokenPipeError:
            raise ClusterError(f"node {self.node_id} did not start: {self.end}") from None

    def wait_until_serving(self, seconds_max: float) -> None:
        line = self._next_line(seconds_max)
        if line is None:
            raise ClusterError(f"node {self.node_id} does not serve after {seconds_max:g} s")
        if not line:
            self._running_process().wait()
            raise ClusterError(f"node {self.node_id} did not start: {self.end}")
        if not line.startswith(READY):
            raise ClusterError(f"node {self.node_id} said {line.decode(errors='replace').strip()!r}")

    def live_with(self, circumstances: Circumstances) -> None:
        if not self.is_running:
            return
        try:
            self._tell(circumstances)
        except BrokenPipeError:
            # It ended this very moment.
            return
        self._answers_due += 1
        if not self._is_paused:
            self._await_answers()

    def _await_answers(self) -> None:
        while self._answers_due:
            line = self._next_line(_ANSWER_SECONDS_MAX)
            if line is None:
                raise ClusterError(f"node {self.node_id} does not listen any more")
            self._answers_due -= line == TOLD
            if not line:
                return

    def _tell(self, circumstances: Circumstances) -> None:
        process = self._running_process()
        assert process.stdin is not None
        process.stdin.write(circumstances.to_line())
        process.stdin.flush()

    def _next_line(self, seconds_max: float) -> bytes | None:
        """Of its standard output. Empty: it has ended; None: it said nothing in that time."""
        process = self._running_process()
        assert process.stdout is not None
        deadline = time.monotonic() + seconds_max
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._said:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                chunk = os.read(process.stdout.fileno(), 4096)
                if not chunk:
                    return b""
                self._said += chunk
        line, newline, self._said = self._said.partition(b"\n")
        return line + newline

    def stop(self) -> None:
        process = self._running_process()
        self._was_ended = True
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClusterError(f"node {self.node_id} did not stop in {STOP_SECONDS_MAX:g} s") from None
        self._close_pipes()
        if process.returncode != 0:
            raise ClusterError(f"node {self.node_id} did not stop as it should: {self._last_words(process)}")

    def kill(self) -> None:
        if self._process is not None:
            self._was_ended = True
            self._process.kill()
            self._process.wait()
            self._close_pipes()

    def pause(self) -> None:
        self._running_process().send_signal(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        self._running_process().send_signal(signal.SIGCONT)
        self._is_paused = False
        self._await_answers()

    def _running_process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was begun"
        return self._process

    def _close_pipes(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
