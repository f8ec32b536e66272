"""Finds tasks that died silently: with an error that no other code has retrieved.

asyncio reports such an error only when the task is freed, and an owner that keeps its task, or a node that runs for
months, never frees it.
"""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any, Final
from weakref import ref

SCAN_SECONDS: Final = 1.0
"""A task that awaits another receives its error at once, unless its process is paused: then the scan is late too."""
_PRUNED_FROM: Final = 1000


class SilentTasks:
    def __init__(self, note: Callable[[str], None]) -> None:
        """`note` receives the description of each task, once."""
        self._note: Final = note
        # In the order of creation, so that every run reports them in the same order.
        self._tasks: list[ref[asyncio.Task[Any]]] = []
        self._prune_at = _PRUNED_FROM
        self._suspects: set[int] = set()

    def add(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.append(ref(task))
        if len(self._tasks) >= self._prune_at:
            self._prune()

    def scan(self) -> None:
        """To be called by the process itself, every SCAN_SECONDS."""
        self._prune()
        dead = {id(one): task for one in self._tasks if (task := one()) is not None and _is_silently_dead(task)}
        for number, task in dead.items():
            if number in self._suspects:
                error = task.exception()
                assert error is not None
                trace = "".join(traceback.format_exception(error))
                self._note(f"a task died silently: {task.get_coro()}\n{trace}")
        self._suspects = set(dead)

    def _prune(self) -> None:
        self._tasks = [one for one in self._tasks if (task := one()) is not None and _may_be_silent(task)]
        self._prune_at = max(_PRUNED_FROM, 2 * len(self._tasks))


def _may_be_silent(task: "asyncio.Task[Any]") -> bool:
    return not task.done() or _is_silently_dead(task)


def _is_silently_dead(task: "asyncio.Task[Any]") -> bool:
    # Set with the error, and cleared when the error is retrieved.
    return task.done() and not task.cancelled() and bool(task._log_traceback)
