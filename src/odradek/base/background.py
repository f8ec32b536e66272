"""Tasks that run in the background of a node. None of them may die unnoticed.

asyncio reports the error of a task only when it frees the task, and background tasks live as long as the node. An
unexpected error is therefore passed to the exception handler of the event loop at once. A node has one event loop, and
its handler decides what follows (`node/fault_handler.py`); a program without a node logs the error.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
OnFault = Callable[[str, BaseException], None]
"""Receives what has failed, and the error."""

FAULT: Final = "fault"
"""The key of the name in the context of the exception handler."""


class Fault(Exception):
    """An unexpected error, which is a bug: what it has interrupted cannot continue."""

    def __init__(self, what: str, error: BaseException) -> None:
        super().__init__(f"Unexpected error in {what}: {type(error).__name__}: {error}")


def report_fault(what: str, error: BaseException) -> None:
    """The node stops with this error."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"Unexpected error in {what}", "exception": error, FAULT: what}
    )


def log_fault(what: str, error: BaseException) -> None:
    """For work that the node can do without, or that starts again."""
    logger.error("Unexpected error in %s", what, exc_info=error)


def start_task(name: str, work: Coroutine[Any, Any, T], on_fault: OnFault = report_fault) -> asyncio.Task[T]:
    """Starts a task whose result is not awaited. `on_fault` is called if it raises."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(partial(_on_end, name, on_fault))
    return task


def _on_end(name: str, on_fault: OnFault, task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        on_fault(name, error)
