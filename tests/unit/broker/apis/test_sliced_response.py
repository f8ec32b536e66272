"""Sliced responses equal unsliced ones, and other tasks run in between."""

import asyncio
from collections.abc import Sequence
from typing import Any

from odradek.broker.apis.sliced_response import respond_in_slices


def squares(some: Sequence[int]) -> list[Any]:
    return [number * number for number in some]


def test_few_items_are_described_immediately() -> None:
    assert respond_in_slices(range(3), 3, squares, list) == [0, 1, 4]
    assert respond_in_slices([], 3, squares, list) == []


def test_many_items_are_described_in_slices() -> None:
    turns = 0

    async def work() -> Any:
        nonlocal turns
        response: Any = respond_in_slices(range(7), 3, squares, list)
        making = asyncio.ensure_future(response)
        while not making.done():
            turns += 1
            await asyncio.sleep(0)
        return making.result()

    assert asyncio.run(work()) == [number * number for number in range(7)]
    assert turns > 3
