"""Odradek as its users run it: `odradek format`, then `odradek start server.properties` in a process of its own."""

import io
import os
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from odradek.cli.main import run
from tests.node_process import NodeFailed, NodeProcess

ODRADEK = Path(sys.executable).with_name("odradek")
# Two threads that redirect the output at the same time would leave it redirected for ever.
_REDIRECTED = threading.Lock()


class OdradekProcess(NodeProcess):
    name = "odradek"

    def format_command(self) -> list[str]:
        return [str(ODRADEK), "format", "--cluster-id", self.cluster_id, "--config", str(self.config_file)]

    def environment(self) -> dict[str, str]:
        # Compiled modules are kept between runs, as after an installation of the package.
        return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def start_command(self) -> list[str]:
        return [str(ODRADEK), "start", str(self.config_file)]

    def _run_to_end(self, command: list[str]) -> None:
        """Call the command line in this process: a process of its own would take ten times as long."""
        program, *arguments = command
        if program != str(ODRADEK):
            super()._run_to_end(command)
            return
        with _REDIRECTED, redirect_stdout(io.StringIO()) as output, redirect_stderr(output):
            status = run(arguments)
        if status != 0:
            raise NodeFailed(f"{' '.join(command)} ended with {status}\n{output.getvalue()}")
