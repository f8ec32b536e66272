"""A node in a thread of this process, on an event loop of its own: killed and frozen without harm to the others.

Killing stops the loop where it stands, and takes disk and sockets away: no line of the node's code has an effect
afterwards. Freezing keeps the loop busy doing nothing: connections stand, the system accepts more, nobody answers.
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
from odradek.testing.circumstances import Circumstances
from odradek.testing.errors import ClusterError
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
    def end(self) -> str:
        return "" if self._life is None else self._life.end

    def prepare(self) -> None:
        pass

    def begin(self, config: NodeConfig, circumstances: Circumstances) -> None:
        self._life = _Life(config)
        self._life.live_with(circumstances)
        self._life.begin()

    def wait_until_serving(self, seconds_max: float) -> None:
        try:
            self._running_life().serving.result(seconds_max)
        except TimeoutError:
            raise ClusterError(f"node {self.node_id} does not serve after {seconds_max:g} s") from None

    def stop(self) -> None:
        self._running_life().stop()

    def kill(self) -> None:
        if self._life is not None:
            self._life.kill()

    def pause(self) -> None:
        self._running_life().freeze()

    def resume(self) -> None:
        self._running_life().thaw()

    def live_with(self, circumstances: Circumstances) -> None:
        if self._life is not None:
            self._life.live_with(circumstances)

    def _running_life(self) -> "_Life":
        assert self._life is not None, "it was begun"
        return self._life


class _Life:
    """One run of the node, from its start to its end."""

    def __init__(self, config: NodeConfig) -> None:
        self._config: Final = config
        self._disk: Final = FaultyDisk(HostDisk())
        self._executor: Final = ThreadExecutor(config.background_threads)
        self._loop: Final = NodeLoop.of(config.node_id)
        self._stop_requested: Final = asyncio.Event()
        self._thawed: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name=f"odradek-node-{config.node_id}", daemon=True)
        self.serving: Final[Future[None]] = Future()
        self.is_frozen = False
        self.end = ""

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    # From other threads

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._tell(self._stop_requested.set)
        self._thread.join(STOP_SECONDS_MAX)
        if self.is_running:
            self.kill()
            raise ClusterError(f"node {self._config.node_id} did not stop in {STOP_SECONDS_MAX:g} s")

    def kill(self) -> None:
        # Sockets that nobody closed and coroutines that nobody awaited are what a killed process leaves.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            self._tell(self._loop.stop)
            self.thaw()
            self._thread.join()

    def freeze(self) -> None:
        if self.is_frozen or not self.is_running:
            return
        frozen: Future[None] = Future()

        def hold_still() -> None:
            frozen.set_result(None)
            self._thawed.wait()

        self._thawed.clear()
        self._tell(hold_still)
        frozen.result(STOP_SECONDS_MAX)
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        self._thawed.set()

    def live_with(self, circumstances: Circumstances) -> None:
        self._disk.live_with(circumstances)
        self._loop.live_with(circumstances)

    def _tell(self, what: Callable[[], object]) -> None:
        # A loop that is closed belongs to a node that has ended meanwhile.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    # In the node's thread

    def _run(self) -> None:
        loop = self._loop
        serving = loop.create_task(self._serve())
        serving.add_done_callback(lambda _: loop.stop())
        try:
            loop.run_forever()
            if serving.done():
                serving.result()
        except Exception as error:
            logger.exception("node %d broke", self._config.node_id)
            self.end = f"{type(error).__name__}: {error}"
        finally:
            self._bury()
            if not self.serving.done():
                reason = self.end or "it was killed"
                self.serving.set_exception(ClusterError(f"node {self._config.node_id} did not start: {reason}"))

    async def _serve(self) -> None:
        node = Node(
            self._config, disk=self._disk, clock=SystemClock(), random=random.SystemRandom(), executor=self._executor
        )
        try:
            await node.start()
        except StartError as error:
            self.end = str(error)
            await node.stop()
            return
        self.serving.set_result(None)
        stopping = asyncio.ensure_future(self._stop_requested.wait())
        await asyncio.wait((stopping, node.failed), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await node.stop()
        if node.failed.done():
            self.end = node.failed.result()

    def _bury(self) -> None:
        """Whatever the node was doing has no effect any more, and nothing of it stays: files, sockets, threads."""
        loop = self._loop
        self._disk.cut()
        loop.set_exception_handler(lambda *_: None)
        tasks = asyncio.all_tasks(loop)
        # The workers report to the loop: it has to be there still.
        self._executor.close()
        loop.close()
        for task in tasks:
            _drop(task)


def _drop(task: "asyncio.Task[object]") -> None:
    """Ends a task that will never be run again, without asyncio's complaint that it was waiting for something."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    # What its `finally` clauses try on a closed loop must fail, in one way or another.
    with suppress(Exception):
        coroutine.close()
