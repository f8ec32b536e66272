"""Commands that do not depend on each other and come in one turn of the loop: one batch, and everybody's own answer."""

import asyncio
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode
from odradek.broker.coordinators import gathering
from odradek.records.batch import parse_batches
from tests.unit.broker.coordinators.tally import Answer, Ask, Broker, Command, Count, Put, run

NONE = ErrorCode.none


def batches(broker: Broker) -> list[int]:
    """How many records each has."""
    data = broker.log.read(0, 1 << 20, end_offset_exclusive=broker.log.log_end_offset).data
    return [batch.record_count for batch in parse_batches(data)]


async def answers(broker: Broker, *commands: Command) -> list[Answer]:
    return await asyncio.gather(*(broker.answer(command) for command in commands))


def test_one_batch_for_all_that_come_together(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        puts = [Put(f"name-{number % 3}", number) for number in range(7)]
        assert await answers(broker, *puts) == [Answer(NONE, number) for number in range(7)]
        assert batches(broker) == [7]
        assert broker.machine.offsets == list(range(7))
        # In the order of their coming.
        assert broker.machine.counts == {"name-0": 6, "name-1": 4, "name-2": 5}
        assert await broker.answer(Put("name-0", 9)) == Answer(NONE, 9)
        assert batches(broker) == [7, 1]

    run(work())


def test_what_comes_between_sees_those_before_it_and_not_those_after(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        told = await answers(broker, Put("a", 4), Count("a"), Put("a", 1), Put("b", 2), Ask("a"), Put("a", 7))
        assert [one.count for one in told] == [4, 5, 1, 2, 1, 7]
        assert batches(broker) == [1, 1, 2, 1]

    run(work())


def test_with_replicas_all_wait_for_them(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False)
        asked = [asyncio.ensure_future(broker.answer(Put("a", number))) for number in range(3)]
        await asyncio.sleep(0.01)
        assert batches(broker) == [3]
        assert not any(one.done() for one in asked)
        broker.replicate()
        assert [(await one).count for one in asked] == [0, 1, 2]

    run(work())


def test_who_is_refused_costs_nobody_else(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        told = await answers(broker, Put("a", 1), Put("a", -1), Put("unwritable", 2), Put("b", 3))
        assert told == [
            Answer(NONE, 1),
            Answer(ErrorCode.invalid_request),
            Answer(ErrorCode.unknown_server_error),
            Answer(NONE, 3),
        ]
        assert broker.machine.counts == {"a": 1, "b": 3}
        assert batches(broker) == [1, 1]

    run(work())


def test_one_that_is_too_large_and_more_than_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, max_message_bytes=500)
        broker.lead()
        told = await answers(broker, Put("a", 1), Put("x" * 600, 2), Put("b", 3))
        assert [one.error for one in told] == [NONE, ErrorCode.message_too_large, NONE]
        assert batches(broker) == [1, 1]
        told = await answers(broker, *(Put("y" * 100, number) for number in range(10)))
        assert [one.count for one in told] == list(range(10))
        # As many as surely fit.
        assert sum(batches(broker)) == 12
        assert max(batches(broker)) == 3
        monkeypatch.setattr(gathering, "TOGETHER_BYTES_MAX", 250)
        await answers(broker, *(Put("y" * 100, number) for number in range(4)))
        assert batches(broker)[-4:] == [1, 1, 1, 1]

    run(work())


def test_on_a_slow_disk_those_that_come_meanwhile_are_written_together(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.pace.is_slow = True
        broker.threads.may_run.clear()
        first = asyncio.ensure_future(broker.answer(Put("a", 1)))
        await asyncio.sleep(0.01)
        others = [asyncio.ensure_future(broker.answer(Put("a", number))) for number in (2, 3)]
        await asyncio.sleep(0.01)
        assert broker.log.log_end_offset == 0
        broker.threads.may_run.set()
        assert [(await one).count for one in (first, *others)] == [1, 2, 3]
        assert batches(broker) == [1, 2]

    run(work())


def test_leadership_goes_before_their_turn(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        asked = asyncio.gather(*(asyncio.ensure_future(broker.answer(Put("a", number))) for number in range(2)))
        asyncio.get_running_loop().call_soon(broker.follow, 2)
        assert [one.error for one in await asked] == [ErrorCode.not_coordinator] * 2
        assert broker.log.log_end_offset == 0

    run(work())


def test_a_disk_that_fails_is_told_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()

        def fail(*_: object, **__: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(broker.partition, "append", fail)
        told = await answers(broker, Put("a", 1), Put("b", 2))
        assert [one.error for one in told] == [ErrorCode.kafka_storage_error] * 2
        assert len(broker.failed) == 1
        assert broker.machine.counts == {}

    run(work())
