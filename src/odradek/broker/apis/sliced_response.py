"""Builds responses about thousands of items in slices, so that other connections are served in between."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from odradek.wire.schemas import Message

T = TypeVar("T")


def respond_in_slices(
    items: Sequence[T],
    slice_max: int,
    describe: Callable[[Sequence[T]], list[Message]],
    respond: Callable[[Sequence[Message]], Message],
) -> Message | Awaitable[Message]:
    """Passes the results of `describe` for all slices to `respond`; immediately if one slice is enough.

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
