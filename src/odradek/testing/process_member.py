"""A node in a separate process, which exits with the test even if the test is killed."""

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
from odradek.testing.child import APPLIED
from odradek.testing.errors import ClusterError
from odradek.testing.faults import Faults
from odradek.testing.member import STOP_SECONDS_MAX

if TYPE_CHECKING:
    from odradek.config.node_config import NodeConfig

_LOG_LINES: Final = 12
_ACKNOWLEDGEMENT_SECONDS_MAX: Final = 10.0


class ProcessMember:
    def __init__(self, node_id: int, directory: Path, properties: Mapping[str, str]) -> None:
        self.node_id = node_id
        self._files: Final = NodeFiles(directory, node_id)
        self._overrides: Final = [f"{key}={value}" for key, value in properties.items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._was_stopped = False
        self._is_paused = False
        self._unread_output = b""
        self._pending_acknowledgements = 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def exit_reason(self) -> str:
        if self._process is None or self.is_running or self._was_stopped:
            return ""
        return self._describe_exit(self._process)

    def _describe_exit(self, process: subprocess.Popen[bytes]) -> str:
        lines = self._files.last_log_lines(0, _LOG_LINES)
        return "\n".join((f"exit code {process.returncode}; last lines of its log:", *lines))

    def prepare(self) -> None:
        self._files.directory.mkdir(parents=True, exist_ok=True)
        with self._files.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "odradek.testing.child", str(self._files.properties), *self._overrides],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C must reach only the test, which still needs the node.
                start_new_session=True,
            )
        self._was_stopped = self._is_paused = False
        self._unread_output = b""
        self._pending_acknowledgements = 0

    def start(self, config: "NodeConfig", faults: Faults) -> None:
        if not self.is_running:
            self._close_pipes()
            self.prepare()
        try:
            self._send(faults)
        except BrokenPipeError:
            raise ClusterError(f"node {self.node_id} did not start: {self.exit_reason}") from None

    def wait_until_serving(self, seconds_max: float) -> None:
        line = self._next_line(seconds_max)
        if line is None:
            raise ClusterError(f"node {self.node_id} does not serve requests after {seconds_max:g} s")
        if not line:
            self._started_process().wait()
            raise ClusterError(f"node {self.node_id} did not start: {self.exit_reason}")
        if not line.startswith(READY):
            raise ClusterError(f"node {self.node_id} printed {line.decode(errors='replace').strip()!r}")

    def apply_faults(self, faults: Faults) -> None:
        if not self.is_running:
            return
        try:
            self._send(faults)
        except BrokenPipeError:
            # The process has just exited.
            return
        self._pending_acknowledgements += 1
        if not self._is_paused:
            self._wait_for_acknowledgements()

    def _wait_for_acknowledgements(self) -> None:
        while self._pending_acknowledgements:
            line = self._next_line(_ACKNOWLEDGEMENT_SECONDS_MAX)
            if line is None:
                raise ClusterError(f"node {self.node_id} does not respond")
            self._pending_acknowledgements -= line == APPLIED
            if not line:
                return

    def _send(self, faults: Faults) -> None:
        process = self._started_process()
        assert process.stdin is not None
        process.stdin.write(faults.to_line())
        process.stdin.flush()

    def _next_line(self, seconds_max: float) -> bytes | None:
        """Return the next line of standard output, empty if the process has exited, or None after the timeout."""
        process = self._started_process()
        assert process.stdout is not None
        deadline = time.monotonic() + seconds_max
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread_output:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                chunk = os.read(process.stdout.fileno(), 4096)
                if not chunk:
                    return b""
                self._unread_output += chunk
        line, newline, self._unread_output = self._unread_output.partition(b"\n")
        return line + newline

    def stop(self) -> None:
        process = self._started_process()
        self._was_stopped = True
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClusterError(f"node {self.node_id} did not stop within {STOP_SECONDS_MAX:g} s") from None
        self._close_pipes()
        if process.returncode != 0:
            raise ClusterError(f"node {self.node_id} did not stop cleanly: {self._describe_exit(process)}")

    def kill(self) -> None:
        if self._process is not None:
            self._was_stopped = True
            self._process.kill()
            self._process.wait()
            self._close_pipes()

    def pause(self) -> None:
        self._started_process().send_signal(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        self._started_process().send_signal(signal.SIGCONT)
        self._is_paused = False
        self._wait_for_acknowledgements()

    def _started_process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the process was started"
        return self._process

    def _close_pipes(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
