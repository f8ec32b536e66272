"""A node in a thread of this process, on a disk with which a test can tamper."""

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import uvloop

from odradek.base.ports import Disk
from odradek.config.node_config import NodeConfig
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.node.node import Node
from odradek.node.pool_sizes import pool_sizes
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.quorum.format import FormatRequest, format_directories
from odradek.storage.log.partition_log import PartitionLog
from tests.node_process import CLUSTER_ID
from tests.odradek_process import OdradekProcess

T = TypeVar("T")

THREAD_NAME = "hosted-node"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


class HostedNode:
    """Started on entering the `with` block, stopped on leaving it. `failure` is the reason why the node stopped."""

    def __init__(
        self,
        directory: Path,
        *,
        disk: Disk | None = None,
        properties: Mapping[str, str] | None = None,
        log_dirs: Sequence[Path] = (),
    ) -> None:
        # Never started: it only provides the server.properties.
        process = OdradekProcess(directory, properties=properties, log_dirs=log_dirs)
        self.log_dirs = process.log_dirs
        self.port = process.port
        text = "".join(f"{key}={value}\n" for key, value in process.server_properties().items())
        self.config = NodeConfig.load(text, "server.properties")
        self.disk = disk or HostDisk()
        self.node: Node
        self.failure: str | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._start_error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    @property
    def pid(self) -> int:
        return os.getpid()

    def __enter__(self) -> Self:
        self.begin()
        self.wait_until_ready()
        return self

    def begin(self) -> None:
        """Starts the node, which may need others before it is ready."""
        if not (self.log_dirs[0] / "meta.properties").exists():
            request = FormatRequest(cluster_id=CLUSTER_ID)
            format_directories(HostDisk(), self.config, request, random=random.SystemRandom(), now_ms=0)
        self._thread.start()

    def wait_until_ready(self) -> None:
        assert self._ready.wait(START_TIMEOUT_S), "the node did not start"
        if self._start_error is not None:
            raise self._start_error

    def request_stop(self) -> None:
        if self._thread.is_alive():
            # The node may stop on its own at the same moment.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._thread.is_alive():
            self.request_stop()
            self._thread.join(STOP_TIMEOUT_S)
            assert not self._thread.is_alive(), "the node did not stop"

    def call(self, work: Callable[[], T]) -> T:
        """Runs `work` on the node's event loop."""

        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(START_TIMEOUT_S)

    def logs(self) -> list[PartitionLog]:
        """The logs of all partitions; use them only on the node's event loop."""
        assert self.node._broker is not None
        return list(self.node._broker.log_dirs.logs())

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._serve())
            except BaseException as error:  # noqa: BLE001 - handed to the test's thread
                self._start_error = error
                self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        executor = ThreadExecutor(pool_sizes(self.config))
        self.node = Node(
            self.config,
            disk=self.disk,
            clock=SystemClock(),
            random=random.SystemRandom(),
            executor=executor,
            workers=ThreadWorkers(executor, self.disk, load_program),
        )
        self.node.failed.add_done_callback(self._on_failure)
        try:
            await self.node.run(self._stop, self._ready.set)
        finally:
            executor.close()

    def _on_failure(self, failed: "asyncio.Future[str]") -> None:
        self.failure = failed.result()
