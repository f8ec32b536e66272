"""A node in a thread of this process with its own event loop, which can be killed and frozen independently.

Killing stops the loop and detaches disk and sockets, so that the node's code has no effect any more. Freezing blocks
the loop: connections stay open, the operating system accepts new ones, and nothing responds.
"""

import asyncio
import logging
import random
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from odradek.config.node_config import NodeConfig
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.node.node import Node, StartError
from odradek.node.pool_sizes import pool_sizes
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.testing.errors import ClusterError
from odradek.testing.faults import Faults
from odradek.testing.faulty_disk import FaultyDisk
from odradek.testing.member import STOP_SECONDS_MAX
from odradek.testing.network import NodeLoop

logger = logging.getLogger(__name__)


class ThreadMember:
    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self._life: _Life | None = None

    @property
    def is_running(self) -> bool:
        return self._life is not None and self._life.is_running

    @property
    def is_paused(self) -> bool:
        return self._life is not None and self._life.is_frozen

    @property
    def exit_reason(self) -> str:
        return "" if self._life is None else self._life.exit_reason

    def prepare(self) -> None:
        pass

    def start(self, config: NodeConfig, faults: Faults) -> None:
        self._life = _Life(config)
        self._life.apply_faults(faults)
        self._life.start()

    def wait_until_serving(self, seconds_max: float) -> None:
        try:
            self._running_life().serving.result(seconds_max)
        except TimeoutError:
            raise ClusterError(f"node {self.node_id} does not serve requests after {seconds_max:g} s") from None

    def stop(self) -> None:
        self._running_life().stop()

    def kill(self) -> None:
        if self._life is not None:
            self._life.kill()

    def pause(self) -> None:
        self._running_life().freeze()

    def resume(self) -> None:
        self._running_life().thaw()

    def apply_faults(self, faults: Faults) -> None:
        if self._life is not None:
            self._life.apply_faults(faults)

    def _running_life(self) -> "_Life":
        assert self._life is not None, "the node was started"
        return self._life


class _Life:
    """One run of the node, from start to exit."""

    def __init__(self, config: NodeConfig) -> None:
        self._config: Final = config
        self._disk: Final = FaultyDisk(HostDisk())
        self._executor: Final = ThreadExecutor(pool_sizes(config))
        self._loop: Final = NodeLoop.of(config.node_id)
        self._stop_requested: Final = asyncio.Event()
        self._thawed: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name=f"odradek-node-{config.node_id}", daemon=True)
        self.serving: Final[Future[None]] = Future()
        self.is_frozen = False
        self.exit_reason = ""

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    # Called from other threads

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._call_soon(self._stop_requested.set)
        self._thread.join(STOP_SECONDS_MAX)
        if self.is_running:
            self.kill()
            raise ClusterError(f"node {self._config.node_id} did not stop within {STOP_SECONDS_MAX:g} s")

    def kill(self) -> None:
        # Unclosed sockets and unawaited coroutines are expected after a kill.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            self._call_soon(self._loop.stop)
            self.thaw()
            self._thread.join()

    def freeze(self) -> None:
        if self.is_frozen or not self.is_running:
            return
        frozen: Future[None] = Future()

        def block() -> None:
            frozen.set_result(None)
            self._thawed.wait()

        self._thawed.clear()
        self._call_soon(block)
        frozen.result(STOP_SECONDS_MAX)
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        self._thawed.set()

    def apply_faults(self, faults: Faults) -> None:
        self._disk.apply_faults(faults)
        self._loop.apply_faults(faults)

    def _call_soon(self, callback: Callable[[], object]) -> None:
        # A closed loop belongs to a node that has exited meanwhile.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    # Runs in the node's thread

    def _run(self) -> None:
        loop = self._loop
        serving = loop.create_task(self._serve())
        serving.add_done_callback(lambda _: loop.stop())
        try:
            loop.run_forever()
            if serving.done():
                serving.result()
        except Exception as error:
            logger.exception("Node %d failed", self._config.node_id)
            self.exit_reason = f"{type(error).__name__}: {error}"
        finally:
            self._clean_up()
            if not self.serving.done():
                reason = self.exit_reason or "it was killed"
                self.serving.set_exception(ClusterError(f"node {self._config.node_id} did not start: {reason}"))

    async def _serve(self) -> None:
        node = Node(
            self._config,
            disk=self._disk,
            clock=SystemClock(),
            random=random.SystemRandom(),
            executor=self._executor,
            workers=ThreadWorkers(self._executor, self._disk, load_program),
        )
        try:
            await node.run(self._stop_requested, lambda: self.serving.set_result(None))
        except StartError as error:
            self.exit_reason = str(error)
            return
        if node.failed.done():
            self.exit_reason = node.failed.result()

    def _clean_up(self) -> None:
        """Close the node's files, sockets and threads, so that its pending work has no effect any more."""
        loop = self._loop
        self._disk.detach()
        loop.set_exception_handler(lambda *_: None)
        tasks = asyncio.all_tasks(loop)
        # Executor threads report to the loop, so they end before it is closed.
        self._executor.close()
        loop.close()
        for task in tasks:
            _drop(task)


def _drop(task: "asyncio.Task[object]") -> None:
    """Close a task that will never run again, without asyncio's warning about a pending task."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    # Its `finally` clauses fail in various ways on a closed loop.
    with suppress(Exception):
        coroutine.close()
