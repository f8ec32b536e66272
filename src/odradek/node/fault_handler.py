"""Decides what an unexpected error of a node means, as Kafka's fault handlers do.

A background task, a timer or any other callback that raises leaves work undone that no other code repeats: the node
stops with the error, and other nodes take over. An error of one connection closes that connection, and the error of
a request that has no client any more is only logged. The active controller resigns before its node stops
(`quorum/active_controller.py`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from odradek.base.background import FAULT, Fault

logger = logging.getLogger(__name__)

_CONNECTION_KEYS: Final = frozenset({"transport", "protocol", "socket"})
"""asyncio's contexts of errors that belong to one connection have one of these keys."""


class FaultHandler:
    def __init__(self, fail: Callable[[str], None]) -> None:
        """`fail` stops the node with a reason."""
        self._fail: Final = fail

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The exception handler of the node's event loop."""
        error = context.get("exception")
        message = str(context.get("message"))
        logger.error("%s", message, exc_info=error if isinstance(error, BaseException) else None)
        if isinstance(error, BaseException) and (what := _failed_work(context)) is not None:
            self._fail(str(Fault(what, error)))


def _failed_work(context: dict[str, Any]) -> str | None:
    """What the node has to stop for; None: the error has no further consequence."""
    if FAULT in context:
        return str(context[FAULT])
    if "handle" in context and not _CONNECTION_KEYS & context.keys():
        return "a callback"
    return None
