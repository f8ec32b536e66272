import asyncio

import pytest

from odradek.base.slices import Slices
from odradek.server.slices import SliceTurns


def note(name: str, count: int, notes: list[str]) -> Slices[str]:
    for _ in range(count):
        notes.append(name)
        yield
    return name


def test_result_of_the_last_slice_is_returned() -> None:
    assert asyncio.run(SliceTurns().run(note("a", 3, []))) == "a"


def test_error_of_a_slice_is_raised_and_lets_others_continue() -> None:
    def fail() -> Slices[None]:
        yield
        raise ValueError("no")

    async def scenario() -> None:
        turns = SliceTurns()
        failing, other = asyncio.gather(turns.run(fail()), return_exceptions=True), turns.run(note("a", 2, []))
        assert await asyncio.wait_for(other, 20) == "a"
        (error,) = await failing
        assert isinstance(error, ValueError)

    asyncio.run(scenario())


def test_computations_take_turns() -> None:
    async def scenario() -> list[str]:
        turns, notes = SliceTurns(), list[str]()
        await asyncio.gather(*(turns.run(note(name, 3, notes)) for name in "abc"))
        return notes

    assert asyncio.run(scenario()) == list("abcabcabc")


def test_one_slice_runs_per_turn_of_the_event_loop() -> None:
    """Many clients with large requests delay the others no longer than one."""

    async def scenario() -> int:
        turns, notes = SliceTurns(), list[str]()
        running = [asyncio.ensure_future(turns.run(note("a", 5, notes))) for _ in range(10)]
        longest = 0
        while not all(one.done() for one in running):
            before = len(notes)
            await asyncio.sleep(0)
            longest = max(longest, len(notes) - before)
        return longest

    assert asyncio.run(scenario()) == 1


def test_cancelled_computation_lets_others_continue() -> None:
    async def scenario() -> None:
        turns = SliceTurns()
        cancelled = asyncio.ensure_future(turns.run(note("a", 1000, [])))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await asyncio.wait_for(turns.run(note("b", 2, [])), 20) == "b"
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(scenario())
