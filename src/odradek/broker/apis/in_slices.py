"""Builds large responses in slices, so that other connections take turns."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from odradek.wire.schemas import Message

T = TypeVar("T")


def in_slices(
    items: Sequence[T],
    slice_max: int,
    describe: Callable[[Sequence[T]], list[Message]],
    respond: Callable[[Sequence[Message]], Message],
) -> Message | Awaitable[Message]:
    """Calls `describe` for each slice of the items and `respond` with all results; at once, if the items are few.

    The described state may change between two slices.
    """
    if len(items) <= slice_max:
        return respond(describe(items))
    return _respond_in_slices(items, slice_max, describe, respond)


async def _respond_in_slices(
    items: Sequence[T],
    slice_max: int,
    describe: Callable[[Sequence[T]], list[Message]],
    respond: Callable[[Sequence[Message]], Message],
) -> Message:
    results: list[Message] = []
    for start in range(0, len(items), slice_max):
        results += describe(items[start : start + slice_max])
        await asyncio.sleep(0)
    return respond(results)
