"""Background tasks report unexpected errors at once, to the exception handler of the event loop."""

import asyncio
from typing import Any

import pytest

from odradek.base.background import FAULT, log_fault, start_task


async def fail() -> None:
    raise KeyError("unexpected")


def contexts_of(scenario: Any) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        await scenario()

    asyncio.run(main())
    return seen


def test_error_is_reported_while_the_task_is_kept() -> None:
    async def scenario() -> None:
        task = start_task("sweeping", fail())
        await asyncio.wait([task])
        await asyncio.sleep(0)

    (context,) = contexts_of(scenario)
    assert context[FAULT] == "sweeping"
    assert isinstance(context["exception"], KeyError)
    assert context["message"] == "Unexpected error in sweeping"


def test_result_and_cancellation_are_not_reported() -> None:
    async def scenario() -> None:
        task, cancelled = start_task("sweeping", asyncio.sleep(0, 7)), start_task("waiting", asyncio.sleep(60))
        cancelled.cancel()
        assert await task == 7
        await asyncio.wait([cancelled])
        await asyncio.sleep(0)

    assert contexts_of(scenario) == []


def test_error_of_work_that_starts_again_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        await asyncio.wait([start_task("sweeping", fail(), log_fault)])
        await asyncio.sleep(0)

    assert contexts_of(scenario) == []
    (record,) = caplog.records
    assert record.getMessage() == "Unexpected error in sweeping"
    assert record.exc_info is not None
