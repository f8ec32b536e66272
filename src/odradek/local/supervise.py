"""Node processes from start to end: started, waited for until they serve, watched, and stopped together.

Nothing is polled: a node says `ready` on its standard output, and its end closes that pipe.
"""

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Final

from odradek.local.node_files import NodeFiles
from odradek.text.terminal import say

# A node that has this long nothing to say may be recovering its logs: people are told where to look.
SLOW_START_S: Final = 5.0
# Flushing everything may take long; after this long people are told that a second Ctrl-C does not wait for it.
SLOW_STOP_S: Final = 10.0
# Nodes that stop first may take so long before the others, which they need in order to leave, are told too.
STOP_FIRST_S: Final = 30.0
LOG_LINES: Final = 12

READY: Final = b"ready "
_ERROR_MARK: Final = "error: "
_READ_BYTES: Final = 4096
# With less than this a log may end before it says why.
_FULL_DISK_BYTES: Final = 64 * 1024


class NodeEnded(Exception):
    """A node is gone that nobody asked to go."""


class Supervisor:
    """`serves` asks, in a thread, whether the cluster answers as it should, once every node said that it is ready;
    `while_starting` is done in a thread until then, and `beside` from then on, until the nodes are stopped.

    Until then the end of one node is the end of all; later the others go on, and the last one ends it.
    """

    def __init__(
        self,
        nodes: Sequence[NodeFiles],
        *,
        stop_first: Collection[int] = (),
        serves: Callable[[], None],
        on_ready: Callable[[], None],
        while_starting: Callable[[], None] = lambda: None,
        beside: Callable[[], Coroutine[object, object, None]] | None = None,
        options: Sequence[str] = (),
        command: Sequence[str] = (sys.executable, "-m", "odradek", "start"),
    ) -> None:
        self._nodes: Final = nodes
        self._stop_first: Final = frozenset(stop_first)
        self._serves: Final = serves
        self._on_ready: Final = on_ready
        self._while_starting: Final = while_starting
        self._beside: Final = beside
        self._command: Final = command
        self._options: Final = options
        self._running: list[_RunningNode] = []
        self._companion: asyncio.Task[None] | None = None
        self._stop_requested: Final = asyncio.Event()
        self._kill_requested: Final = asyncio.Event()

    async def run(self) -> None:
        """Returns after a clean stop, by a signal or a closed terminal. Raises NodeEnded when nodes end unasked."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
        try:
            await self._start_all()
            await self._until_stopped(self._become_ready())
            if not self._stop_requested.is_set():
                self._on_ready()
                if self._beside is not None:
                    self._companion = asyncio.create_task(self._beside())
                await self._watch()
        finally:
            await self._stop_all()

    async def _start_all(self) -> None:
        started = await asyncio.gather(
            *(_RunningNode.start(files, self._command, self._options) for files in self._nodes), return_exceptions=True
        )
        self._running.extend(node for node in started if isinstance(node, _RunningNode))
        for failure in started:
            if isinstance(failure, BaseException):
                raise failure

    def _on_signal(self) -> None:
        if self._stop_requested.is_set():
            self._kill_requested.set()
        self._stop_requested.set()

    async def _become_ready(self) -> None:
        reminder = asyncio.get_running_loop().call_later(SLOW_START_S, self._remind_of_logs)
        try:
            await asyncio.gather(
                asyncio.to_thread(self._while_starting), *(node.ready.wait() for node in self._running)
            )
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

    async def _watch(self) -> None:
        """Until a request to stop. What ends before is told; the others go on."""
        stop = asyncio.ensure_future(self._stop_requested.wait())
        alive = list(self._running)
        try:
            while not stop.done():
                await asyncio.wait((stop, *(node.ended for node in alive)), return_when=asyncio.FIRST_COMPLETED)
                if stop.done():
                    return
                ended = [node for node in alive if node.ended.done()]
                alive = [node for node in alive if not node.ended.done()]
                if not alive:
                    raise NodeEnded(ended[-1].last_words())
                for node in ended:
                    node.files.pid.unlink(missing_ok=True)
                    say(f"{node.last_line()}; the others go on, and {node.revival()} brings it back")
        finally:
            stop.cancel()

    async def _stop_all(self) -> None:
        reminder = asyncio.get_running_loop().call_later(
            SLOW_STOP_S, say, "still stopping; Ctrl-C once more ends the nodes at once"
        )
        if self._companion is not None:
            self._companion.cancel()
        first = [node for node in self._running if node.files.node_id in self._stop_first]
        for node in first:
            node.send(signal.SIGTERM)
        await self._wait_for(first, STOP_FIRST_S)
        for node in self._running:
            if node not in first:
                node.send(signal.SIGTERM)
        await self._wait_for(self._running, None)
        reminder.cancel()
        for node in self._running:
            node.files.pid.unlink(missing_ok=True)
        if self._companion is not None:
            await asyncio.wait((self._companion,))

    async def _wait_for(self, nodes: Sequence["_RunningNode"], patience_s: float | None) -> None:
        """Until they have ended, or are ended because nobody wants to wait, or the patience is over."""
        everyone = asyncio.gather(*(node.ended for node in nodes))
        kill = asyncio.ensure_future(self._kill_requested.wait())
        await asyncio.wait((everyone, kill), return_when=asyncio.FIRST_COMPLETED, timeout=patience_s)
        if kill.done():
            for node in nodes:
                node.send(signal.SIGKILL)
            await everyone
        kill.cancel()


class _RunningNode:
    def __init__(self, files: NodeFiles, process: asyncio.subprocess.Process, log_start: int) -> None:
        self.files: Final = files
        self.ready: Final = asyncio.Event()
        self._process: Final = process
        self._log_start: Final = log_start
        self.ended: Final = asyncio.ensure_future(self._follow())

    @classmethod
    async def start(cls, files: NodeFiles, command: Sequence[str], options: Sequence[str]) -> "_RunningNode":
        with files.log.open("ab") as log:
            log_start = log.tell()
            process = await asyncio.create_subprocess_exec(
                *command,
                str(files.properties),
                *options,
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
        lines = self._own_lines()
        if not lines or self._named_mistake(lines) or self._disk_is_full():
            return self.last_line()
        return "\n".join((f"{self._end()}; its log {str(self.files.log)!r} ends with:", *lines))

    def last_line(self) -> str:
        """Why it ended, or where to look for it."""
        lines = self._own_lines()
        if mistake := self._named_mistake(lines):
            return f"node {self.files.node_id}: {mistake}"
        if self._disk_is_full():
            return (
                f"{self._end()}: no space left on the disk of {str(self.files.directory)!r}; free some, and try again"
            )
        if not lines:
            return f"{self._end()}, and left nothing in its log {str(self.files.log)!r}"
        return f"{self._end()} (its log is {str(self.files.log)!r})"

    def revival(self) -> str:
        return f"`odradek start {self.files.properties}`"

    def _own_lines(self) -> list[str]:
        return self.files.last_log_lines(self._log_start, LOG_LINES)

    def _named_mistake(self, lines: list[str]) -> str:
        return lines[-1].removeprefix(_ERROR_MARK) if lines and lines[-1].startswith(_ERROR_MARK) else ""

    def _disk_is_full(self) -> bool:
        return shutil.disk_usage(self.files.directory).free < _FULL_DISK_BYTES

    def _end(self) -> str:
        code = self.ended.result()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"node {self.files.node_id} {how}"
