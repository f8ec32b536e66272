"""Independent commands of one turn of the loop share a batch, and each gets its own response."""

import asyncio
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode
from odradek.broker.coordinators import shared_batch
from odradek.records.batch import parse_batches
from tests.unit.broker.coordinators.tally import Broker, Command, Count, Put, Read, Response, run

NONE = ErrorCode.none


def batches(broker: Broker) -> list[int]:
    """How many records each has."""
    data = broker.log.read(0, 1 << 20, end_offset_exclusive=broker.log.log_end_offset).data
    return [batch.record_count for batch in parse_batches(data)]


async def responses(broker: Broker, *commands: Command) -> list[Response]:
    return await asyncio.gather(*(broker.wait_for_response(command) for command in commands))


def test_independent_commands_share_one_batch(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        puts = [Put(f"name-{number % 3}", number) for number in range(7)]
        assert await responses(broker, *puts) == [Response(NONE, number) for number in range(7)]
        assert batches(broker) == [7]
        assert broker.shard.offsets == list(range(7))
        # In the order of their coming.
        assert broker.shard.counts == {"name-0": 6, "name-1": 4, "name-2": 5}
        assert await broker.wait_for_response(Put("name-0", 9)) == Response(NONE, 9)
        assert batches(broker) == [7, 1]

    run(work())


def test_dependent_command_sees_only_earlier_commands(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        found = await responses(broker, Put("a", 4), Count("a"), Put("a", 1), Put("b", 2), Read("a"), Put("a", 7))
        assert [one.count for one in found] == [4, 5, 1, 2, 1, 7]
        assert batches(broker) == [1, 1, 2, 1]

    run(work())


def test_shared_batch_waits_for_followers(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        pending = [asyncio.ensure_future(broker.wait_for_response(Put("a", number))) for number in range(3)]
        await asyncio.sleep(0.01)
        assert batches(broker) == [3]
        assert not any(one.done() for one in pending)
        broker.replicate()
        assert [(await one).count for one in pending] == [0, 1, 2]

    run(work())


def test_shard_knows_at_replay_whether_a_batch_is_committed(tmp_path: Path) -> None:
    """A single replica commits as it appends: the shard need not keep the values before."""

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        await responses(broker, Put("a", 1), Put("b", 2))
        assert broker.shard.committed_at_replay == [True, True]

    run(work())


def test_shard_knows_at_replay_that_followers_do_not_have_a_batch(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        pending = asyncio.ensure_future(broker.wait_for_response(Put("a", 1)))
        await asyncio.sleep(0.01)
        assert broker.shard.committed_at_replay == [False]
        broker.replicate()
        await pending

    run(work())


def test_rejected_command_does_not_affect_its_batch(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        found = await responses(broker, Put("a", 1), Put("a", -1), Put("unwritable", 2), Put("b", 3))
        assert found == [
            Response(NONE, 1),
            Response(ErrorCode.invalid_request),
            Response(ErrorCode.unknown_server_error),
            Response(NONE, 3),
        ]
        assert broker.shard.counts == {"a": 1, "b": 3}
        assert batches(broker) == [1, 1]

    run(work())


def test_large_results_get_batches_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, max_message_bytes=500)
        broker.lead()
        found = await responses(broker, Put("a", 1), Put("x" * 600, 2), Put("b", 3))
        assert [one.error for one in found] == [NONE, ErrorCode.message_too_large, NONE]
        assert batches(broker) == [1, 1]
        found = await responses(broker, *(Put("y" * 100, number) for number in range(10)))
        assert [one.count for one in found] == list(range(10))
        # As many as surely fit.
        assert sum(batches(broker)) == 12
        assert max(batches(broker)) == 3
        monkeypatch.setattr(shared_batch, "SHARED_BATCH_BYTES_MAX", 250)
        await responses(broker, *(Put("y" * 100, number) for number in range(4)))
        assert batches(broker)[-4:] == [1, 1, 1, 1]

    run(work())


def test_commands_that_arrive_during_a_slow_append_share_a_batch(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.pace.is_slow = True
        broker.threads.may_run.clear()
        first = asyncio.ensure_future(broker.wait_for_response(Put("a", 1)))
        await asyncio.sleep(0.01)
        others = [asyncio.ensure_future(broker.wait_for_response(Put("a", number))) for number in (2, 3)]
        await asyncio.sleep(0.01)
        assert broker.log.log_end_offset == 0
        broker.threads.may_run.set()
        assert [(await one).count for one in (first, *others)] == [1, 2, 3]
        assert batches(broker) == [1, 2]

    run(work())


def test_leadership_lost_before_the_batch_is_written(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        pending = asyncio.gather(
            *(asyncio.ensure_future(broker.wait_for_response(Put("a", number))) for number in range(2))
        )
        asyncio.get_running_loop().call_soon(broker.follow, 2)
        assert [one.error for one in await pending] == [ErrorCode.not_coordinator] * 2
        assert broker.log.log_end_offset == 0

    run(work())


def test_disk_failure_rejects_all_commands_of_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()

        def fail(*_: object, **__: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(broker.partition, "append", fail)
        found = await responses(broker, Put("a", 1), Put("b", 2))
        assert [one.error for one in found] == [ErrorCode.kafka_storage_error] * 2
        assert len(broker.failed) == 1
        assert broker.shard.counts == {}

    run(work())
