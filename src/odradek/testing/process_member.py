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

from odradek.cli.node_files import NodeFiles
from odradek.cli.supervise import READY
from odradek.testing.child import GO
from odradek.testing.errors import ClusterError
from odradek.testing.member import STOP_SECONDS_MAX

if TYPE_CHECKING:
    from odradek.config.node_config import NodeConfig

_LOG_LINES: Final = 12


class ProcessMember:
    def __init__(self, node_id: int, directory: Path, properties: Mapping[str, str]) -> None:
        self.node_id = node_id
        self._files: Final = NodeFiles(directory, node_id)
        self._overrides: Final = [f"--override={key}={value}" for key, value in properties.items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._was_ended = False
        self._is_paused = False

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
        lines = self._files.last_log_lines(0, _LOG_LINES)
        return "\n".join((f"exit code {self._process.returncode}; its log ends with:", *lines))

    def prepare(self) -> None:
        self._files.directory.mkdir(parents=True, exist_ok=True)
        with self._files.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "odradek.testing.child", "start", str(self._files.properties), *self._overrides],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C is the test's, and the node's process must not be gone before the test is done with it.
                start_new_session=True,
            )
        self._was_ended = self._is_paused = False

    def begin(self, config: "NodeConfig") -> None:
        if not self.is_running:
            self._close_pipes()
            self.prepare()
        process = self._running_process()
        assert process.stdin is not None
        try:
            process.stdin.write(GO)
            process.stdin.flush()
        except BrokenPipeError:
            raise ClusterError(f"node {self.node_id} did not start: {self.end}") from None

    def wait_until_serving(self, seconds_max: float) -> None:
        """A node writes one line to its standard output, when it serves, and nothing after it."""
        process = self._running_process()
        assert process.stdout is not None
        deadline = time.monotonic() + seconds_max
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not said.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise ClusterError(f"node {self.node_id} does not serve after {seconds_max:g} s")
                chunk = os.read(process.stdout.fileno(), 4096)
                if not chunk:
                    process.wait()
                    raise ClusterError(f"node {self.node_id} did not start: {self.end}")
                said += chunk
        if not said.startswith(READY):
            raise ClusterError(f"node {self.node_id} said {said.decode(errors='replace').strip()!r}")

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

    def _running_process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was begun"
        return self._process

    def _close_pipes(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
