"""A node as a process: from its configuration to its exit code.

`ready` on standard output says that clients are served; whoever started the process waits for that line.
"""

import asyncio
import gc
import logging
import random
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.base.ports import Disk
from odradek.config.node_config import NodeConfig
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.node.node import Node, StartError

logger = logging.getLogger("odradek")

EXIT_OK = 0
EXIT_MISTAKE = 2
EXIT_FAILED = 1
PRELOAD_AFTER_SECONDS = 1.0
# Requests make many objects and hardly a cycle: to look for those after every 700 takes a twentieth of a broker's time.
COLLECTED_AFTER_OBJECTS = 10_000


NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run_node(config: NodeConfig, *, disk: Disk | None = None, new_loop: NewLoop | None = None) -> int:
    """Serves until SIGTERM or SIGINT, or until the node cannot go on. Returns the process's exit code.

    Disk and event loop are the system's and uvloop's, unless they are given.
    """
    for warning in config.warnings:
        logger.warning("%s", warning)
    _raise_open_files_limit()
    return _run(_serve(config, disk or HostDisk()), new_loop or _uvloop())


def _raise_open_files_limit() -> None:
    """To what the system allows this process, as a JVM does: the usual soft limit is too low for a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning("open files stay limited to %d: %s", soft, error)


def _uvloop() -> NewLoop | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _run(main: Coroutine[Any, Any, int], new_loop: NewLoop | None) -> int:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


async def _serve(config: NodeConfig, disk: Disk) -> int:
    executor = ThreadExecutor(config.background_threads)
    node = Node(config, disk=disk, clock=SystemClock(), random=random.SystemRandom(), executor=executor)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await node.start()
    except StartError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        await node.stop()
        executor.close()
        return EXIT_MISTAKE
    # What is there now stays: the collector need never look at it again.
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()
    print(f"ready bootstrap={node.bootstrap}", flush=True)
    preloading = asyncio.ensure_future(_preload(config, executor))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((stopping, node.failed), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    preloading.cancel()
    await node.stop()
    executor.close()
    if node.failed.done():
        print(f"error: {node.failed.result()}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    return EXIT_OK


async def _preload(config: NodeConfig, executor: ThreadExecutor) -> None:
    """Only where there may be another controller to take over from."""
    if config.is_controller and len(config.controller_quorum_voters) != 1:
        # The first clients come first.
        await asyncio.sleep(PRELOAD_AFTER_SECONDS)
        from odradek.node.preloading import preload_for_failover

        await preload_for_failover(executor)
