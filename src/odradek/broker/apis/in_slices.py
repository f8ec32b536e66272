"""Answers that speak of thousands of things: other connections have their turn while they are made."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from odradek.wire.schemas import Message

T = TypeVar("T")


def in_slices(
    things: Sequence[T],
    in_one_go_max: int,
    answer: Callable[[Sequence[T]], list[Message]],
    respond: Callable[[Sequence[Message]], Message],
) -> Message | Awaitable[Message]:
    """What `respond` makes of all that `answer` gives for some of the things after the other; at once, if they are few.

    What is answered may change between two slices.
    """
    if len(things) <= in_one_go_max:
        return respond(answer(things))
    return _respond_slowly(things, in_one_go_max, answer, respond)


async def _respond_slowly(
    things: Sequence[T],
    in_one_go_max: int,
    answer: Callable[[Sequence[T]], list[Message]],
    respond: Callable[[Sequence[Message]], Message],
) -> Message:
    answers: list[Message] = []
    for start in range(0, len(things), in_one_go_max):
        answers += answer(things[start : start + in_one_go_max])
        await asyncio.sleep(0)
    return respond(answers)
