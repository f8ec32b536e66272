"""A node as a process: from its configuration to its exit code.

The process prints a line that starts with `ready` when it serves clients; its parent process waits for that line.
"""

import asyncio
import gc
import logging
import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from odradek.base.background import log_fault, start_task
from odradek.base.ports import Disk
from odradek.config.node_config import NodeConfig
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.host.worker_processes import WorkerProcesses
from odradek.node.blocked_loop import BlockedLoop
from odradek.node.node import Node, StartError
from odradek.node.pool_sizes import pool_sizes
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program

if TYPE_CHECKING:
    from odradek.host.stall_watchdog import StallWatchdog

logger = logging.getLogger("odradek")

EXIT_OK = 0
EXIT_MISTAKE = 2
EXIT_FAILED = 1
PRELOAD_AFTER_SECONDS = 1.0
WORKER_COMMAND = (sys.executable, "-m", "odradek.node.worker")
# Names a file to which the node appends stalls of its event loop and their causes, for measurements.
STALL_LOG_VARIABLE = "ODRADEK_STALL_LOG"
STOP_WHILE_STARTING_SECONDS_MAX = 1.25
STOP_AFTER_FAILURE_SECONDS_MAX = 30.0
OUTPUT_SECONDS_MAX = 5.0
# Requests create many objects and few cycles: the default threshold would cost 5 % of a broker's time.
GC_THRESHOLD_OBJECTS = 10_000
# How long a thread may keep the interpreter while the event loop waits for it, which happens after each system call.
# Python's default of 5 ms makes a write next to a busy thread take 4.3 ms; with this it takes 23 µs, and the thread
# loses a tenth of its speed.
SWITCH_INTERVAL_SECONDS = 0.0001


NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run_node(config: NodeConfig, *, disk: Disk | None = None, new_loop: NewLoop | None = None) -> int:
    """Serves until SIGTERM or SIGINT, or until the node fails. Returns the exit code.

    By default it uses the system's disk and uvloop's event loop. Workers are processes only on the system's disk.
    """
    for warning in config.warnings:
        logger.warning("%s", warning)
    _raise_open_files_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    return _run(_serve(config, disk), new_loop or _uvloop())


def _raise_open_files_limit() -> None:
    """Raises the soft limit to the hard limit, as a JVM does: the usual soft limit is too low for a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning("Cannot raise the limit of open files: limit=%d, reason=%s", soft, error)


def _uvloop() -> NewLoop | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _run(main: Coroutine[Any, Any, int], new_loop: NewLoop | None) -> int:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


async def _serve(config: NodeConfig, given_disk: Disk | None) -> int:
    disk = given_disk or HostDisk()
    executor = ThreadExecutor(pool_sizes(config))
    workers: ThreadWorkers | WorkerProcesses = ThreadWorkers(executor, disk, load_program)
    if given_disk is None:
        # Their disk is the system's.
        workers = WorkerProcesses(executor, workers, sizes=pool_sizes(config), command=WORKER_COMMAND)
    node = Node(
        config, disk=disk, clock=SystemClock(), random=random.SystemRandom(), executor=executor, workers=workers
    )
    stop = asyncio.Event()
    # Threads that recover logs cannot be cancelled at any point. As after a kill, the next start recovers the logs.
    exit_timer = _exit_timer(
        STOP_WHILE_STARTING_SECONDS_MAX, EXIT_OK, "a log is being recovered: the next start recovers it again"
    )
    preloading: list[asyncio.Task[None]] = []

    def on_signal() -> None:
        if not stop.is_set():
            stop.set()
            exit_timer.start()

    def on_ready() -> None:
        exit_timer.cancel()
        # What exists now stays alive, so the garbage collector can skip it.
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD_OBJECTS, *gc.get_threshold()[1:])
        gc.enable()
        print(f"ready bootstrap={node.bootstrap}", flush=True)
        preloading.append(start_task("preloading", _preload(config, executor), log_fault))

    loop = asyncio.get_running_loop()
    watchdog = _start_watchdog(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    # A node that has failed must not stay because its stop fails too.
    failure_timer = _exit_timer(STOP_AFTER_FAILURE_SECONDS_MAX, EXIT_FAILED, "the node has failed and does not stop")
    node.failed.add_done_callback(lambda _: failure_timer.start())
    blocked_loop = BlockedLoop(node.log_dir_watch, lambda path: _end(EXIT_FAILED, node.describe_hang(path)))
    blocked_loop.start()
    code, reason = EXIT_OK, ""
    try:
        await node.run(stop, on_ready)
    except StartError as error:
        code, reason = EXIT_MISTAKE, str(error)
    finally:
        for task in preloading:
            task.cancel()
        if watchdog is not None:
            watchdog.stop()
        blocked_loop.stop()
        workers.close()
        executor.close()
    if code == EXIT_OK and node.failed.done():
        code, reason = EXIT_FAILED, node.failed.result()
    if executor.has_abandoned_threads:
        # The interpreter would wait for the threads that wait for the disk.
        _end(code, reason)
    if reason:
        _print_error(reason)
    return code


def _print_error(reason: str) -> None:
    print(f"error: {reason}", file=sys.stderr, flush=True)


def _end(code: int, reason: str) -> NoReturn:
    """Ends the process at once, from any thread."""
    _exit_without_output_after(OUTPUT_SECONDS_MAX, code)
    if reason:
        _print_error(reason)
    sys.stdout.flush()
    logging.shutdown()
    os._exit(code)


def _start_watchdog(loop: asyncio.AbstractEventLoop) -> "StallWatchdog | None":
    path = os.environ.get(STALL_LOG_VARIABLE)
    if not path:
        return None
    from odradek.host.stall_watchdog import StallWatchdog

    watchdog = StallWatchdog(loop, path)
    watchdog.start()
    return watchdog


def _exit_without_output_after(seconds: float, code: int) -> None:
    """The output may be a file on a disk that hangs: then no message can be written, and no log handler closed."""
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()


def _exit_timer(seconds: float, code: int, reason: str) -> threading.Timer:
    """Ends the process, whatever its event loop and its threads do."""

    def exit_now() -> None:
        _exit_without_output_after(OUTPUT_SECONDS_MAX, code)
        logger.warning("Exiting without a complete stop: %s", reason)
        os._exit(code)

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True
    return timer


async def _preload(config: NodeConfig, executor: ThreadExecutor) -> None:
    """Only with other controllers, from which this one may take over."""
    if config.is_controller and len(config.controller_quorum_voters) != 1:
        # The first clients have priority.
        await asyncio.sleep(PRELOAD_AFTER_SECONDS)
        from odradek.node.preloading import preload_for_failover

        await preload_for_failover(executor)
