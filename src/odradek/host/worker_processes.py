"""Workers in processes: started when a task needs one, stopped when idle, and never outliving the node.

A process ends when its standard input closes, which also happens if the node is killed. If a process dies, only its
task fails, and the next one starts another process.
"""

import asyncio
import logging
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.base.background import log_fault, start_task
from odradek.base.errors import WorkerFailed
from odradek.base.ports import Executor, Message, Pool, Workers, WorkerTask
from odradek.host import worker_frames as frames

logger = logging.getLogger(__name__)

# Below, a thread is done before a process has started.
SMALL_BYTES_MAX: Final = 4 << 20
# Longer than the default pause of the log cleaner between two passes.
IDLE_SECONDS: Final = 30.0


class WorkerProcesses:
    """At most as many processes per pool as `sizes` says; further tasks wait for one of them."""

    def __init__(
        self, executor: Executor, in_threads: Workers, *, sizes: Mapping[Pool, int], command: Sequence[str]
    ) -> None:
        """`command` starts a process; the name of the pool is appended."""
        self._in_threads: Final = in_threads
        self._pools: Final = {
            pool: _ProcessPool(executor, pool.value, size, (*command, pool.value)) for pool, size in sizes.items()
        }

    def start(self, pool: Pool, request: Message, *, input_bytes: int) -> WorkerTask:
        if input_bytes <= SMALL_BYTES_MAX:
            return self._in_threads.start(pool, request, input_bytes=input_bytes)
        return _ProcessTask(self._pools[pool], request)

    def close(self) -> None:
        """Kills all processes. Running tasks fail."""
        for pool in self._pools.values():
            pool.close()


class _Process:
    """One process at a time, restarted when needed. `exchange` and `stop` run in the thread of its lane."""

    def __init__(self, command: Sequence[str], lane: str) -> None:
        self._command: Final = command
        self.lane: Final = lane
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def exchange(self, kind: str, message: Message | None) -> tuple[str, Message]:
        """Sends one frame and waits for the response. Raises WorkerFailed."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            frames.write_frame(process.stdin.fileno(), kind, message)
            return frames.read_frame(process.stdout.fileno())
        except frames.PipeClosed as error:
            raise WorkerFailed(f"The process of {self.lane} ended with exit code {self.stop()}") from error

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._is_closed:
            raise WorkerFailed("The node is stopping")
        try:
            process = subprocess.Popen(self._command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise WorkerFailed(f"Cannot start a process for {self.lane}: {error}") from error
        self._process = process
        return process

    def stop(self) -> int | None:
        """Returns the exit code, or the negative number of the signal."""
        process, self._process = self._process, None
        if process is None:
            return None
        # Leaving the block closes the pipes and waits for the end.
        with process:
            process.kill()
        return process.returncode

    def send_end(self) -> None:
        """For the event loop: it does not block, because the process waits for a frame."""
        if self._process is not None and self._process.stdin is not None:
            try:
                frames.write_frame(self._process.stdin.fileno(), frames.END)
            except frames.PipeClosed:
                logger.warning("The process of %s has ended", self.lane)

    def kill(self) -> None:
        """For the event loop: ends a running exchange, whose thread then waits for the end of the process."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        self._is_closed = True
        self.kill()


class _ProcessPool:
    def __init__(self, executor: Executor, name: str, size: int, command: Sequence[str]) -> None:
        self._executor: Final = executor
        self._name: Final = name
        self._command: Final = command
        self._free: Final = asyncio.Semaphore(size)
        self._processes: Final[list[_Process]] = []
        # Those without a task, and the timers that stop them.
        self._idle: Final[dict[_Process, asyncio.TimerHandle]] = {}
        self._stopping: Final[set[asyncio.Task[int | None]]] = set()

    async def acquire(self) -> _Process:
        await self._free.acquire()
        if not self._idle:
            process = _Process(self._command, f"{self._name}-{len(self._processes)}")
            self._processes.append(process)
            return process
        process, timer = self._idle.popitem()
        timer.cancel()
        return process

    async def exchange(self, process: _Process, kind: str, message: Message | None) -> tuple[str, Message]:
        return await self._executor.run(lambda: process.exchange(kind, message), lane=process.lane)

    def release(self, process: _Process) -> None:
        self._idle[process] = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._stop_idle, process)
        self._free.release()

    def _stop_idle(self, process: _Process) -> None:
        # A task that takes the process meanwhile restarts it, after this job of the lane.
        stopping = start_task("stop of a worker", self._executor.run(process.stop, lane=process.lane), log_fault)
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)

    def close(self) -> None:
        for process in self._processes:
            process.close()
        for process, timer in self._idle.items():
            timer.cancel()
            process.stop()


class _ProcessTask:
    def __init__(self, pool: _ProcessPool, request: Message) -> None:
        self._pool: Final = pool
        self._request: Message | None = request
        self._process: _Process | None = None
        self._is_working = False

    async def next(self) -> Message | None:
        request, self._request = self._request, None
        if request is not None:
            self._process = await self._pool.acquire()
        assert self._process is not None, "the task has ended"
        self._is_working = True
        try:
            kind, message = await self._pool.exchange(
                self._process, frames.NEXT if request is None else frames.START, request
            )
        except WorkerFailed:
            self._release()
            raise
        self._is_working = False
        if kind == frames.MESSAGE:
            return message
        self._release()
        if kind == frames.ERROR:
            frames.raise_error(message)
        return None

    def close(self) -> None:
        if self._process is None:
            return
        if self._is_working:
            # The caller was cancelled. Leftover files are overwritten by the next task or removed at the next start.
            self._process.kill()
        else:
            self._process.send_end()
        self._release()

    def _release(self) -> None:
        assert self._process is not None
        self._pool.release(self._process)
        self._process = None
