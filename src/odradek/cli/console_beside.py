"""The console that `odradek up` opens with its cluster: a process of its own, begun once the cluster serves.

So it takes nothing from the cluster's start, and whatever becomes of it, the nodes go on.
"""

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odradek.client.address import Address
from odradek.local.node_files import HOST
from odradek.local.ports import is_free
from odradek.text.errors import UserError
from odradek.text.terminal import say

DEFAULT_PORT: Final = 8080
MISSING: Final = "the console is not installed here: pip install 'odradek[console]'"

READY: Final = b"ready "
# Pages that are open are told that it goes; longer than this nobody waits for them.
_STOP_S: Final = 2.0


def is_installed() -> bool:
    """Looked for, not imported: that takes longer than a node's start."""
    return importlib.util.find_spec("nicegui") is not None


def check_console_port(port: int | None) -> None:
    if port and not is_free(port):
        raise UserError(f"port {port} is taken: choose another --console-port, or leave it out")


class ConsoleBeside:
    """`port` None: the usual one, or any that is free where that is taken."""

    def __init__(
        self,
        data_dir: Path,
        bootstrap: Sequence[Address],
        port: int | None,
        *,
        command: Sequence[str] = (sys.executable, "-m", "odradek", "console"),
    ) -> None:
        self._log: Final = data_dir / "console.log"
        self._options: Final = ("--bootstrap", ",".join(map(str, bootstrap)), "--host", HOST, "--attached")
        self._audit_log: Final = data_dir / "console-audit.jsonl"
        self._port: Final = port
        self._command: Final = command

    async def run(self) -> None:
        """Until it ends, which is told, or this is cancelled, which ends it."""
        try:
            await self._run()
        except OSError as error:
            say(f"the console could not be started: {error.strerror or error}; the cluster goes on")

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
                # Closed by our end, however that comes: the console then ends too.
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                # Ctrl-C in a terminal is for us alone.
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                if line.startswith(READY):
                    print(f"console {line.removeprefix(READY).decode().strip()}", flush=True)
            await process.wait()
            say(f"the console has ended (its log is {str(self._log)!r}); the cluster goes on")
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
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
