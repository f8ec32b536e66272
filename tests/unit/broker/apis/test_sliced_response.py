"""Answers about many things are the same as about few, and others have their turn while they are made."""

import asyncio
from collections.abc import Sequence
from typing import Any

from odradek.broker.apis.sliced_response import respond_in_slices


def squares(some: Sequence[int]) -> list[Any]:
    return [number * number for number in some]


def test_few_are_answered_at_once() -> None:
    assert respond_in_slices(range(3), 3, squares, list) == [0, 1, 4]
    assert respond_in_slices([], 3, squares, list) == []


def test_of_many_some_after_the_other() -> None:
    turns = 0

    async def work() -> Any:
        nonlocal turns
        answer: Any = respond_in_slices(range(7), 3, squares, list)
        making = asyncio.ensure_future(answer)
        while not making.done():
            turns += 1
            await asyncio.sleep(0)
        return making.result()

    assert asyncio.run(work()) == [number * number for number in range(7)]
    assert turns > 3
