"""Finds what stalls an event loop: a thread that looks at the other threads whenever the loop does not run.

For measurements only. It costs a few tenths of a percent of the node's time.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any, Final

STALL_SECONDS: Final = 0.02
TICK_SECONDS: Final = 0.005
_FRAMES_MAX: Final = 12
# A thread whose innermost frame is in one of these modules waits for work.
_WAITING_IN: Final = ("threading", "queue", "concurrent.futures.thread", "selectors")

Stack = tuple[str, ...]


class StallWatchdog:
    """Appends a JSON object per stall to a file. `start` and `stop` are called on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str) -> None:
        self._loop: Final = loop
        self._file: Final = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed by `stop`
        self._loop_thread: Final = threading.get_ident()
        self._run_queues: Final = _RunQueues()
        self._is_over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._watch, name="odradek-stall-watchdog", daemon=True)
        self._ticked_at = time.monotonic()
        self._waited_seconds = 0.0
        # What the threads have done since the last tick. Filled by the watchdog's thread.
        self._loop_stacks: Counter[Stack] = Counter()
        self._other_stacks: Counter[tuple[str, Stack]] = Counter()

    def start(self) -> None:
        self._ticked_at = time.monotonic()
        self._waited_seconds = self._run_queues.seconds()
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._file.close()

    # On the event loop

    def _tick(self) -> None:
        if self._is_over.is_set():
            return
        now, waited = time.monotonic(), self._run_queues.seconds()
        seconds = now - self._ticked_at - TICK_SECONDS
        if seconds > STALL_SECONDS and not self._loop_stacks and not self._other_stacks:
            # A thread held the interpreter, and the event loop got it back before the watchdog's thread did.
            self._look_at_other_threads()
        loop_stacks, self._loop_stacks = self._loop_stacks, Counter()
        other_stacks, self._other_stacks = self._other_stacks, Counter()
        if seconds > STALL_SECONDS:
            self._report(seconds, waited - self._waited_seconds, loop_stacks, other_stacks)
        self._ticked_at, self._waited_seconds = now, waited
        self._loop.call_later(TICK_SECONDS, self._tick)

    def _report(
        self,
        seconds: float,
        waited_seconds: float,
        loop_stacks: Counter[Stack],
        other_stacks: Counter[tuple[str, Stack]],
    ) -> None:
        stall: dict[str, Any] = {
            "milliseconds": round(1000 * seconds, 1),
            # Of all threads: one that holds the interpreter lock while it waits stalls the loop, too.
            "waited_for_processor_milliseconds": round(1000 * waited_seconds, 1),
            "loop": next((stack for stack, _ in loop_stacks.most_common(1)), ()),
            "threads": [{"name": name, "stack": stack} for (name, stack), _ in other_stacks.most_common(3)],
        }
        self._file.write(json.dumps(stall) + "\n")
        self._file.flush()

    # In the watchdog's thread

    def _watch(self) -> None:
        looked_at = time.monotonic()
        while not self._is_over.wait(TICK_SECONDS):
            now = time.monotonic()
            # If another thread holds the interpreter, this one cannot run either, and finds out late.
            since = min(self._ticked_at + TICK_SECONDS, looked_at)
            if now - since > STALL_SECONDS:
                self._look()
            looked_at = now

    def _look(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        if frame is not None:
            self._loop_stacks[_stack(frame)] += 1
        self._look_at_other_threads()

    # In either thread

    def _look_at_other_threads(self) -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        not_suspected = (self._loop_thread, self._thread.ident)
        for ident, frame in sys._current_frames().items():
            if ident not in not_suspected and frame.f_globals.get("__name__") not in _WAITING_IN:
                self._other_stacks[names.get(ident, "?"), _stack(frame)] += 1


def _stack(frame: FrameType | None) -> Stack:
    """The innermost frame first."""
    lines: list[str] = []
    while frame is not None and len(lines) < _FRAMES_MAX:
        code = frame.f_code
        lines.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")
        frame = frame.f_back
    return tuple(lines)


class _RunQueues:
    """How long the threads of this process have waited for a processor; 0 where the system does not report it."""

    def __init__(self) -> None:
        self._files: Final[dict[str, int]] = {}

    def seconds(self) -> float:
        try:
            tasks = os.listdir("/proc/self/task")
        except FileNotFoundError:
            return 0.0
        return sum(map(self._waited_nanoseconds, tasks)) / 1e9

    def _waited_nanoseconds(self, task: str) -> int:
        try:
            file = self._files.get(task)
            if file is None:
                file = self._files[task] = os.open(f"/proc/self/task/{task}/schedstat", os.O_RDONLY)
            return int(os.pread(file, 100, 0).split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return 0
