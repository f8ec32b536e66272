"""Node processes from start to end: started, waited for until they serve, watched, and stopped together.

Nothing is polled: a node says `ready` on its standard output, and its end closes that pipe.
"""

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from odradek.cli.node_files import NodeFiles
from odradek.cli.terminal import say

# A node that has this long nothing to say may be recovering its logs: people are told where to look.
SLOW_START_S: Final = 5.0
# Flushing everything may take long; after this long people are told that a second Ctrl-C does not wait for it.
SLOW_STOP_S: Final = 10.0
LOG_LINES: Final = 12

READY: Final = b"ready "
_ERROR_MARK: Final = "error: "
_READ_BYTES: Final = 4096
# With less than this a log may end before it says why.
_FULL_DISK_BYTES: Final = 64 * 1024


class NodeEnded(Exception):
    """A node is gone that nobody asked to go."""


class Supervisor:
    """`serves` asks, in a thread, whether the cluster answers as it should, once every node said that it is ready."""

    def __init__(
        self,
        nodes: Sequence[NodeFiles],
        *,
        serves: Callable[[], None],
        on_ready: Callable[[], None],
        command: Sequence[str] = (sys.executable, "-m", "odradek", "start"),
    ) -> None:
        self._nodes: Final = nodes
        self._serves: Final = serves
        self._on_ready: Final = on_ready
        self._command: Final = command
        self._running: list[_RunningNode] = []
        self._stop_requested: Final = asyncio.Event()
        self._kill_requested: Final = asyncio.Event()

    async def run(self) -> None:
        """Returns after a clean stop, by a signal or a closed terminal. Raises NodeEnded when a node ends by itself."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
        try:
            for files in self._nodes:
                self._running.append(await _RunningNode.start(files, self._command))
            await self._until_stopped(self._become_ready())
            if not self._stop_requested.is_set():
                self._on_ready()
                await self._until_stopped(self._stop_requested.wait())
        finally:
            await self._stop_all()

    def _on_signal(self) -> None:
        if self._stop_requested.is_set():
            self._kill_requested.set()
        self._stop_requested.set()

    async def _become_ready(self) -> None:
        reminder = asyncio.get_running_loop().call_later(SLOW_START_S, self._remind_of_logs)
        try:
            await asyncio.gather(*(node.ready.wait() for node in self._running))
            await asyncio.to_thread(self._serves)
        finally:
            reminder.cancel()

    def _remind_of_logs(self) -> None:
        for node in self._running:
            if not node.ready.is_set():
                say(f"node {node.files.node_id} is still starting; it tells what it does in {str(node.files.log)!r}")

    async def _until_stopped(self, wanted: Coroutine[object, object, object]) -> None:
        """Waits for `wanted`, for a request to stop, or for the end of a node, whichever comes first."""
        work = asyncio.ensure_future(wanted)
        stop = asyncio.ensure_future(self._stop_requested.wait())
        ends = [node.ended for node in self._running]
        try:
            await asyncio.wait((work, stop, *ends), return_when=asyncio.FIRST_COMPLETED)
            ended = next((node for node in self._running if node.ended.done()), None)
            if ended is not None and not self._stop_requested.is_set():
                raise NodeEnded(ended.last_words())
            if work.done():
                work.result()
        finally:
            work.cancel()
            stop.cancel()

    async def _stop_all(self) -> None:
        for node in self._running:
            node.send(signal.SIGTERM)
        reminder = asyncio.get_running_loop().call_later(
            SLOW_STOP_S, say, "still stopping; Ctrl-C once more ends the nodes at once"
        )
        kill = asyncio.ensure_future(self._kill_requested.wait())
        everyone = asyncio.gather(*(node.ended for node in self._running))
        await asyncio.wait((everyone, kill), return_when=asyncio.FIRST_COMPLETED)
        reminder.cancel()
        if not everyone.done():
            for node in self._running:
                node.send(signal.SIGKILL)
        await everyone
        kill.cancel()
        for node in self._running:
            node.files.pid.unlink(missing_ok=True)


class _RunningNode:
    def __init__(self, files: NodeFiles, process: asyncio.subprocess.Process, log_start: int) -> None:
        self.files: Final = files
        self.ready: Final = asyncio.Event()
        self._process: Final = process
        self._log_start: Final = log_start
        self.ended: Final = asyncio.ensure_future(self._follow())

    @classmethod
    async def start(cls, files: NodeFiles, command: Sequence[str]) -> "_RunningNode":
        with files.log.open("ab") as log:
            log_start = log.tell()
            process = await asyncio.create_subprocess_exec(
                *command,
                str(files.properties),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                # Ctrl-C in a terminal goes to every process of its group: the nodes are stopped by us, in order.
                start_new_session=True,
            )
        files.pid.write_text(f"{process.pid}\n")
        return cls(files, process, log_start)

    async def _follow(self) -> int:
        """Reads until the end, whatever comes: a full pipe would stop the node."""
        assert self._process.stdout is not None
        line = b""
        while chunk := await self._process.stdout.read(_READ_BYTES):
            *lines, line = (line + chunk).split(b"\n")
            line = line[: len(READY)]
            if any(one.startswith(READY) for one in lines):
                self.ready.set()
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def last_words(self) -> str:
        """Why it ended, in one line if it said so itself, else with the end of its log."""
        code = self.ended.result()
        lines = self.files.last_log_lines(self._log_start, LOG_LINES)
        name = f"node {self.files.node_id}"
        if lines and lines[-1].startswith(_ERROR_MARK):
            return f"{name}: {lines[-1].removeprefix(_ERROR_MARK)}"
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if shutil.disk_usage(self.files.directory).free < _FULL_DISK_BYTES:
            return f"{name} {how}: no space left on the disk of {str(self.files.directory)!r}; free some, and try again"
        if not lines:
            return f"{name} {how}, and left nothing in its log {str(self.files.log)!r}"
        return "\n".join((f"{name} {how}; its log {str(self.files.log)!r} ends with:", *lines))
