"""Builds responses about thousands of items in slices, so that other connections are served in between."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from odradek.base.slices import Slices
from odradek.wire.schemas import Message

T = TypeVar("T")

# Topics and partitions of one slice, which takes about a millisecond.
SLICE_ENTRIES: Final = 250


def describe_topics(
    topics: Iterable[tuple[T, Iterable[Any]]],
    describe: Callable[[T, Any], Message],
    conclude: Callable[[T, tuple[Message, ...]], Message],
) -> Slices[tuple[Message, ...]]:
    """Describes each partition of each topic, and concludes each topic with the descriptions of its partitions."""
    described: list[Message] = []
    left = SLICE_ENTRIES
    for topic, partitions in topics:
        results: list[Message] = []
        for partition in partitions:
            results.append(describe(topic, partition))
            left -= 1
            if left <= 0:
                left = SLICE_ENTRIES
                yield
        described.append(conclude(topic, tuple(results)))
        left -= 1
        if left <= 0:
            left = SLICE_ENTRIES
            yield
    return tuple(described)


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
