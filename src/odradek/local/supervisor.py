"""Starts node processes, waits until they are ready, watches them, and stops them together.

Nothing is polled: a node prints `ready` to its standard output, and its exit closes that pipe.
"""

import asyncio
import contextlib
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Final

from odradek.local.node_files import NodeFiles
from odradek.text.errors import as_sentence
from odradek.text.terminal import say

# A node that is not ready by then may be recovering its logs: a message points to its log.
SLOW_START_S: Final = 5.0
# Flushing the logs may take long: after this time a message says that a second Ctrl-C kills the nodes.
SLOW_STOP_S: Final = 10.0
# How long brokers may take for a controlled shutdown before the controllers are stopped too.
STOP_FIRST_S: Final = 30.0
LOG_LINES: Final = 12

READY: Final = b"ready "
_ERROR_PREFIX: Final = "error: "
_READ_BYTES: Final = 4096
# With less free space than this, a log may end before it states the reason for the exit.
_FULL_DISK_BYTES: Final = 64 * 1024


class NodeExited(Exception):
    """A node exited without a request to stop."""


class Supervisor:
    """Runs the processes of several nodes.

    `while_starting` runs in a thread while the nodes start. Once every node is ready, `wait_until_serving` runs in a
    thread until the cluster serves requests. From then on `run_alongside` runs until the nodes are stopped.

    If a node exits before the cluster serves requests, all nodes are stopped. Later the other nodes keep running, and
    the supervisor ends with the last of them.
    """

    def __init__(
        self,
        nodes: Sequence[NodeFiles],
        *,
        stop_first: Collection[int] = (),
        wait_until_serving: Callable[[], None],
        on_ready: Callable[[], None],
        while_starting: Callable[[], None] = lambda: None,
        run_alongside: Callable[[], Coroutine[object, object, None]] | None = None,
        options: Sequence[str] = (),
        command: Sequence[str] = (sys.executable, "-m", "odradek", "start"),
    ) -> None:
        self._nodes: Final = nodes
        self._stop_first: Final = frozenset(stop_first)
        self._wait_until_serving: Final = wait_until_serving
        self._on_ready: Final = on_ready
        self._while_starting: Final = while_starting
        self._run_alongside: Final = run_alongside
        self._command: Final = command
        self._options: Final = options
        self._running: list[_RunningNode] = []
        self._companion: asyncio.Task[None] | None = None
        self._stop_requested: Final = asyncio.Event()
        self._kill_requested: Final = asyncio.Event()

    async def run(self) -> None:
        """Return after a clean stop, by a signal or a closed terminal. Raises NodeExited if nodes exit on their own."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
        try:
            await self._start_all()
            await self._run_until_stopped(self._wait_until_ready())
            if not self._stop_requested.is_set():
                self._on_ready()
                if self._run_alongside is not None:
                    self._companion = asyncio.create_task(self._run_alongside())
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

    async def _wait_until_ready(self) -> None:
        reminder = asyncio.get_running_loop().call_later(SLOW_START_S, self._remind_of_logs)
        try:
            await asyncio.gather(_in_thread(self._while_starting), *(node.ready.wait() for node in self._running))
            await _in_thread(self._wait_until_serving)
        finally:
            reminder.cancel()

    def _remind_of_logs(self) -> None:
        for node in self._running:
            if not node.ready.is_set():
                say(f"Node {node.files.node_id} is still starting. See its log: {node.files.log}")

    async def _run_until_stopped(self, coroutine: Coroutine[object, object, object]) -> None:
        """Wait for the coroutine, a request to stop, or the exit of a node, whichever comes first."""
        work = asyncio.ensure_future(coroutine)
        stop = asyncio.ensure_future(self._stop_requested.wait())
        exits = [node.exit_code for node in self._running]
        try:
            await asyncio.wait((work, stop, *exits), return_when=asyncio.FIRST_COMPLETED)
            exited = next((node for node in self._running if node.exit_code.done()), None)
            if exited is not None and not self._stop_requested.is_set():
                raise NodeExited(exited.explain_exit_with_log())
            if work.done():
                work.result()
        finally:
            work.cancel()
            stop.cancel()

    async def _watch(self) -> None:
        """Report nodes that exit, until a request to stop. The other nodes keep running."""
        stop = asyncio.ensure_future(self._stop_requested.wait())
        alive = list(self._running)
        try:
            while not stop.done():
                await asyncio.wait((stop, *(node.exit_code for node in alive)), return_when=asyncio.FIRST_COMPLETED)
                if stop.done():
                    return
                exited = [node for node in alive if node.exit_code.done()]
                alive = [node for node in alive if not node.exit_code.done()]
                if not alive:
                    raise NodeExited(exited[-1].explain_exit_with_log())
                for node in exited:
                    node.files.pid.unlink(missing_ok=True)
                    reason, command = node.explain_exit(), node.start_command()
                    say(f"{reason} The other nodes keep running. Restart the node with {command}.")
        finally:
            stop.cancel()

    async def _stop_all(self) -> None:
        reminder = asyncio.get_running_loop().call_later(
            SLOW_STOP_S, say, "Still stopping. Press Ctrl-C again to kill the nodes."
        )
        if self._companion is not None:
            self._companion.cancel()
        # A broker that is still starting has nothing to hand over to other brokers.
        first = [node for node in self._running if node.files.node_id in self._stop_first and node.ready.is_set()]
        for node in first:
            node.send(signal.SIGTERM)
        await self._wait_for_exit(first, STOP_FIRST_S)
        for node in self._running:
            if node not in first:
                node.send(signal.SIGTERM)
        await self._wait_for_exit(self._running, None)
        reminder.cancel()
        for node in self._running:
            node.files.pid.unlink(missing_ok=True)
        if self._companion is not None:
            await asyncio.wait((self._companion,))

    async def _wait_for_exit(self, nodes: Sequence["_RunningNode"], timeout_s: float | None) -> None:
        """Wait until the nodes have exited or the timeout has passed. A second Ctrl-C kills them."""
        exits = asyncio.gather(*(node.exit_code for node in nodes))
        kill = asyncio.ensure_future(self._kill_requested.wait())
        await asyncio.wait((exits, kill), return_when=asyncio.FIRST_COMPLETED, timeout=timeout_s)
        if kill.done():
            for node in nodes:
                node.send(signal.SIGKILL)
            await exits
        kill.cancel()


async def _in_thread(work: Callable[[], None]) -> None:
    """Run the work in a daemon thread: the supervisor exits without waiting for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # noqa: BLE001 - the supervisor receives it
            error = raised
        # The loop is closed if the supervisor has stopped meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_complete, done, error)

    threading.Thread(target=run, daemon=True).start()
    await done


def _complete(done: "asyncio.Future[None]", error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class _RunningNode:
    def __init__(self, files: NodeFiles, process: asyncio.subprocess.Process, log_start: int) -> None:
        self.files: Final = files
        self.ready: Final = asyncio.Event()
        self._process: Final = process
        self._log_start: Final = log_start
        self.exit_code: Final = asyncio.ensure_future(self._read_output())

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
                # Ctrl-C in a terminal goes to every process of its group, but the supervisor stops the nodes in order.
                start_new_session=True,
            )
        files.pid.write_text(f"{process.pid}\n")
        return cls(files, process, log_start)

    async def _read_output(self) -> int:
        """Read the node's output until it exits, because a full pipe would block the node. Returns the exit code."""
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

    def explain_exit_with_log(self) -> str:
        """Explain the exit in one line if the reason is known, else with the last lines of the log."""
        lines = self._log_lines()
        if not lines or self._logged_error(lines) or self._disk_is_full():
            return self.explain_exit()
        return "\n".join((f"{self._describe_exit()}. Last lines of its log {str(self.files.log)!r}:", *lines))

    def explain_exit(self) -> str:
        """State the reason for the exit in one line, or where to find it."""
        lines = self._log_lines()
        if error := self._logged_error(lines):
            return as_sentence(f"Node {self.files.node_id}: {error}")
        if self._disk_is_full():
            return (
                f"{self._describe_exit()}: no space left on the disk of {str(self.files.directory)!r}. Free some space."
            )
        if not lines:
            return f"{self._describe_exit()} without writing to its log {str(self.files.log)!r}."
        return f"{self._describe_exit()}. See its log: {str(self.files.log)!r}."

    def start_command(self) -> str:
        return f"`odradek start {self.files.properties}`"

    def _log_lines(self) -> list[str]:
        return self.files.last_log_lines(self._log_start, LOG_LINES)

    def _logged_error(self, lines: list[str]) -> str:
        return lines[-1].removeprefix(_ERROR_PREFIX) if lines and lines[-1].startswith(_ERROR_PREFIX) else ""

    def _disk_is_full(self) -> bool:
        return shutil.disk_usage(self.files.directory).free < _FULL_DISK_BYTES

    def _describe_exit(self) -> str:
        code = self.exit_code.result()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        return f"Node {self.files.node_id} {how}"
