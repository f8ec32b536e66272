"""Turns a coordinator's response into the response on the wire, at once or when it completes."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from odradek.base.deferred import DeferredResponse
from odradek.wire.schemas import Message

NOT_THROTTLED: Final = timedelta(0)
ENTRIES_PER_TURN_MAX: Final = 1000
"""Partitions or groups that a request may name before it has to yield to other connections while it is handled."""
_MILLISECOND: Final = timedelta(milliseconds=1)


def respond_with(deferred: DeferredResponse, respond: Callable[[Any], Any]) -> Any:
    """Returns the response where the coordinator's is complete, else a `DeferredResponse` of it."""
    deferred.convert(respond)
    return deferred.result if deferred.is_done else deferred


def respond_with_all(deferred: Sequence[DeferredResponse], respond: Callable[[list[Any]], Message]) -> Any:
    """As `respond_with`, once all of them are complete."""
    return respond_with(DeferredResponse.from_all(deferred), respond)


async def respond_in_turns(
    submit: Callable[[], Sequence[DeferredResponse]], respond: Callable[[list[Any]], Message]
) -> Message:
    """As `respond_with_all`, for a request that names thousands of entries: it yields to other connections."""
    await asyncio.sleep(0)
    deferred = submit()
    await asyncio.sleep(0)
    response = respond([await one.wait() for one in deferred])
    await asyncio.sleep(0)
    return response


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND


def java_address(host: str) -> str:
    """The format of Java, and therefore of Kafka, for the host of a member."""
    return f"/{host}"
