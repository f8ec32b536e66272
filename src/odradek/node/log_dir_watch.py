"""Watches the disks of a node's log dirs: starts the probes that their health asks for, and reports a disk that hangs.

The threads of every log dir are here, because they exist before the broker and end after it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from odradek.base.background import start_task
from odradek.base.ports import Clock, Disk, Executor, Threads
from odradek.config.node_config import NodeConfig
from odradek.storage.log.log_dir_health import LogDirHealth, Verdict
from odradek.storage.partition.log_dir_threads import LogDirThreads

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
PROBE_FILE: Final = ".odradek-probe"
PROBE_LANE: Final = "probe"


class LogDirWatch:
    def __init__(
        self, config: NodeConfig, *, threads: Threads, disk: Disk, clock: Clock, on_hang: Callable[[str], None]
    ) -> None:
        self._disk: Final = disk
        self._clock: Final = clock
        self._on_hang: Final = on_hang
        self._executors: Final[dict[str, Executor]] = {}
        self._threads: Final[dict[str, LogDirThreads]] = {}
        for path in dict.fromkeys((*config.log_dirs, config.metadata_log_dir)):
            # The node ends with these log dirs: then it may use the event loop for appends, which costs much less.
            is_essential = path == config.metadata_log_dir or len(config.log_dirs) == 1
            self._executors[path] = executor = threads.for_directory(path)
            self._threads[path] = LogDirThreads(path, executor, LogDirHealth(stays_in_thread=not is_essential))
        self._task: asyncio.Task[None] | None = None
        self._probes: Final[dict[str, asyncio.Task[None]]] = {}
        self.ticks = 0
        """Grows while the event loop runs, for a thread that watches it."""

    def threads_of(self, path: str) -> LogDirThreads:
        return self._threads[path]

    def written_on_loop(self) -> str | None:
        """The log dir to which the event loop is writing at this moment. May be called from any thread."""
        return next((path for path, threads in self._threads.items() if threads.health.is_writing), None)

    def start(self) -> None:
        self._task = start_task("log dir watch", self._run())

    def stop(self) -> None:
        for task in (self._task, *self._probes.values()):
            if task is not None:
                task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.ticks += 1
            now = self._clock.monotonic()
            for path, threads in self._threads.items():
                self._on_verdict(path, threads, threads.health.tick(now))

    def _on_verdict(self, path: str, threads: LogDirThreads, verdict: Verdict | None) -> None:
        match verdict:
            case Verdict.PROBE:
                self._probes[path] = start_task(f"probe of {path}", self._probe(path, threads.health))
            case Verdict.STALLED:
                logger.error("Log dir is stalled: dir=%s. Its requests fail until its disk responds", path)
                threads.on_stall()
            case Verdict.HUNG:
                self._on_hang(path)

    async def _probe(self, path: str, health: LogDirHealth) -> None:
        # If it fails, it has responded: the failure will be found where it matters.
        with suppress(OSError):
            await self._executors[path].run(partial(self._write_probe, path), lane=PROBE_LANE)
        if health.is_stalled and not health.is_hung:
            logger.warning("Log dir responds again: dir=%s", path)
        health.on_probe_end()

    def _write_probe(self, path: str) -> None:
        file = f"{path}/{PROBE_FILE}"
        self._disk.write_atomically(file, b"")
        self._disk.remove(file)
