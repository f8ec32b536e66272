"""The console that `odradek up` starts with its cluster: a separate process, started once the cluster is ready.

It does not slow down the cluster's start, and if it fails, the nodes keep running.
"""

import asyncio
import contextlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odradek.client.address import Address
from odradek.local.node_files import HOST
from odradek.local.ports import is_free
from odradek.local.security_files import SecurityFiles, shell_path
from odradek.text.errors import UserError
from odradek.text.terminal import say

DEFAULT_PORT: Final = 8080
MISSING: Final = "The console is not installed. Install it with: pip install 'odradek[console]'"

COMMAND_CONFIG_VARIABLE: Final = "ODRADEK_COMMAND_CONFIG"
READY: Final = b"ready "
# The console notifies open pages before it exits; this is how long it may take.
_STOP_S: Final = 2.0


def is_installed() -> bool:
    """Look for the package without importing it, which takes longer than starting a node."""
    return importlib.util.find_spec("nicegui") is not None


def check_console_port(port: int | None) -> None:
    if port and not is_free(port):
        raise UserError(f"Cannot bind {HOST}:{port}: address already in use. Choose another port with --console-port.")


class ConsoleProcess:
    """The console's process. If `port` is None, it listens on the default port or, if that is in use, on a free one."""

    def __init__(
        self,
        data_dir: Path,
        bootstrap: Sequence[Address],
        port: int | None,
        *,
        security: SecurityFiles | None = None,
        command: Sequence[str] = (sys.executable, "-m", "odradek", "console"),
    ) -> None:
        self._log: Final = data_dir / "console.log"
        self._options: Final = (
            *("--bootstrap", ",".join(map(str, bootstrap)), "--host", HOST, "--attached"),
            *_security_options(security),
        )
        self._remark: Final = (
            "" if security is None else f" (log in with the password in {shell_path(security.console_password)})"
        )
        self._audit_log: Final = data_dir / "console-audit.jsonl"
        self._port: Final = port
        self._command: Final = command

    async def run(self) -> None:
        """Run the console until it exits, which is reported. Cancelling this stops it."""
        try:
            await self._run()
        except OSError as error:
            say(f"Cannot start the console: {error.strerror or error}. The cluster keeps running.")

    async def _run(self) -> None:
        port = self._port
        if port is None:
            port = DEFAULT_PORT if is_free(DEFAULT_PORT) else 0
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *self._options,
                "--port",
                str(port),
                "--audit-log",
                str(self._audit_log),
                # The pipe closes when this process ends for any reason; the console then exits too.
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                # The user's file is for another cluster.
                env={name: value for name, value in os.environ.items() if name != COMMAND_CONFIG_VARIABLE},
                # Ctrl-C in a terminal must reach only this process, which then stops the console.
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                if line.startswith(READY):
                    print(f"console {line.removeprefix(READY).decode().strip()}{self._remark}", flush=True)
            await process.wait()
            say(f"The console has exited. The cluster keeps running. See its log: {self._log}")
        finally:
            await _stop(process)


def _security_options(security: SecurityFiles | None) -> tuple[str, ...]:
    """The console has the administrator's permissions, so that it needs a login even on the loopback interface."""
    if security is None:
        return ()
    return ("--command-config", str(security.client_properties), "--password-file", str(security.console_password))


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
