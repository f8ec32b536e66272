"""A coordinator's life: steps one after the other, answers when they are safe, nothing that the log does not say."""

import asyncio
import logging
from pathlib import Path

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.coordinators import host
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.control import EndTransactionMarker
from odradek.records.record import Record
from tests.unit.broker.coordinators.tally import Answer, Ask, Break, Broker, Clear, Count, Tally, run

NONE = ErrorCode.none


def append_foreign(broker: Broker, *records: tuple[bytes, bytes]) -> None:
    """By somebody else."""
    data = bytearray(build_batch([Record(key, value, 0) for key, value in records]))
    broker.partition.append(memoryview(data), parse_batches(data), 0)


def test_alone_everything_is_answered_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        assert broker.ask(Count("a")) == Answer(NONE, 1)
        assert broker.ask(Count("a", 4)) == Answer(NONE, 5)
        assert broker.ask(Ask("a")) == Answer(NONE, 5)
        assert broker.machine.offsets == [0, 1]
        assert broker.log.log_end_offset == 2

    run(work())


def test_with_replicas_answers_wait_for_them(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False)
        told: list[tuple[str, Answer]] = []
        for name, command in (("first", Count("a")), ("second", Count("a")), ("look", Ask("a"))):
            deferred = broker.submit(command)
            deferred.on_complete(lambda done, name=name: told.append((name, done.result)))  # type: ignore[misc]
        assert broker.ask(Ask("a", committed=False)) == Answer(NONE, 2)
        assert told == []
        broker.replicate()
        assert told == [("first", Answer(NONE, 1)), ("second", Answer(NONE, 2)), ("look", Answer(NONE, 2))]
        assert broker.ask(Ask("a")) == Answer(NONE, 2)

    run(work())


def test_who_has_gone_is_not_told(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False)
        deferred = broker.submit(Count("a"))
        completed: list[DeferredResponse] = []
        deferred.on_complete(completed.append)
        deferred.cancel()
        broker.replicate()
        assert completed == []

    run(work())


def test_replicas_that_take_too_long(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, write_timeout_ms=3000)
        broker.lead(alone=False)
        first = asyncio.ensure_future(broker.answer(Count("a")))
        await asyncio.sleep(1.5)
        second = asyncio.ensure_future(broker.answer(Count("a", waits_for_written=True)))
        assert await first == Answer(ErrorCode.request_timed_out)
        assert not second.done()
        assert await second == Answer(ErrorCode.request_timed_out, 2)
        assert broker.machine.written_with == [ErrorCode.request_timed_out]
        broker.replicate()
        assert broker.ask(Ask("a")) == Answer(NONE, 2)

    run(work())


def test_too_few_replicas(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False, min_isr=2)
        replication = broker.partition.leader_state
        assert replication is not None
        replication.on_metadata_change(partition_epoch=2, replicas=(1, 2), isr=(1,), now=broker.clock.monotonic())
        assert broker.ask(Count("a")) == Answer(ErrorCode.not_enough_replicas)
        assert broker.machine.counts == {}
        assert broker.ask(Ask("a", committed=False)) == Answer(NONE, 0)

    run(work())


def test_a_step_that_is_too_large(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, max_message_bytes=500)
        broker.lead()
        for number in range(40):
            broker.submit(Count(f"name {number}"))
        assert broker.ask(Clear(is_atomic=True)) == Answer(ErrorCode.message_too_large)
        assert set(broker.machine.counts.values()) == {1}
        assert broker.ask(Clear(is_atomic=False)) == Answer(NONE)
        assert set(broker.machine.counts.values()) == {0}
        assert broker.machine.offsets == list(range(80))

    run(work())


def test_a_record_that_cannot_be_written_is_refused_and_disturbs_nobody(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        machine = broker.machine
        assert broker.ask(Count("unwritable")) == Answer(ErrorCode.unknown_server_error)
        assert broker.machine is machine
        assert broker.ask(Count("a")) == Answer(NONE, 1)

    run(work())


def test_what_is_told_when_it_is_written(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False)
        asked = asyncio.ensure_future(broker.answer(Count("a", 3, waits_for_written=True)))
        await asyncio.sleep(0)
        assert broker.machine.written_with == []
        broker.replicate()
        assert await asked == Answer(NONE, 3)
        assert broker.machine.written_with == [NONE]

    run(work())


def test_on_a_slow_disk_steps_wait_for_each_other(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.pace.is_slow = True
        broker.threads.may_run.clear()
        asked = [asyncio.ensure_future(broker.answer(Count("a"))) for _ in range(3)]
        look = asyncio.ensure_future(broker.answer(Ask("a", committed=False)))
        await asyncio.sleep(0.01)
        assert broker.log.log_end_offset == 0
        assert not look.done()
        broker.threads.may_run.set()
        assert [await one for one in asked] == [Answer(NONE, 1), Answer(NONE, 2), Answer(NONE, 3)]
        assert await look == Answer(NONE, 3)
        assert broker.machine.offsets == [0, 1, 2]

    run(work())


def test_leadership_goes_while_the_disk_is_slow(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.pace.is_slow = True
        broker.threads.may_run.clear()
        asked = [asyncio.ensure_future(broker.answer(Count("a"))) for _ in range(3)]
        await asyncio.sleep(0.01)
        broker.follow(2)
        assert [await one for one in asked] == [Answer(ErrorCode.not_coordinator)] * 3
        assert broker.ask(Count("a")) == Answer(ErrorCode.not_coordinator)
        broker.threads.may_run.set()
        await broker.partition.wait_for_idle()

    run(work())


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()

        def fail(*_: object, **__: object) -> None:
            raise OSError(5, "broken")

        monkeypatch.setattr(broker.log, "append_as_leader", fail)
        assert broker.ask(Count("a")) == Answer(ErrorCode.kafka_storage_error)
        assert len(broker.failed) == 1
        assert broker.machine.counts == {}

    run(work())


def test_the_next_leader_knows_what_was_written(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        for number in range(1000):
            broker.submit(Count(f"name {number % 10}"))
        append_foreign(broker, (b"ignored", b"1"))
        broker.follow(2)
        broker.threads.may_run.clear()
        broker.lead(3)
        assert broker.ask(Ask("name 3")) == Answer(ErrorCode.coordinator_load_in_progress)
        broker.threads.may_run.set()
        await broker.loaded()
        assert broker.ask(Ask("name 3")) == Answer(NONE, 100)
        assert broker.ask(Count("name 3")) == Answer(NONE, 101)
        assert broker.machine.offsets == [*range(1000), 1001]

    run(work())


def test_it_does_not_serve_before_all_that_it_has_is_committed(tmp_path: Path) -> None:
    """The former leader may have told clients of it: a new one that says something older would go back."""

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False)
        broker.submit(Count("a"))
        broker.lead(2, alone=False)
        await asyncio.sleep(0.02)
        assert broker.ask(Ask("a", committed=False)) == Answer(ErrorCode.coordinator_load_in_progress)
        broker.replicate()
        assert broker.ask(Ask("a")) == Answer(NONE, 1)

    run(work())


def test_leadership_goes_while_it_loads(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.submit(Count("a"))
        broker.threads.may_run.clear()
        broker.lead(2)
        await asyncio.sleep(0)
        broker.follow(3)
        broker.threads.may_run.set()
        await asyncio.sleep(0.01)
        assert broker.ask(Ask("a")) == Answer(ErrorCode.not_coordinator)

    run(work())


def test_what_is_due_when_it_is_loaded(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.submit(Count("loaded"))
        broker.threads.may_run.clear()
        broker.lead(2)
        broker.coordinators.everywhere(lambda machine, now_ms: machine.handle(Count("asked meanwhile"), -1, now_ms))
        broker.threads.may_run.set()
        await broker.loaded()
        assert broker.machine.counts == {"loaded": 2, "asked meanwhile": 1}
        assert broker.machine.offsets == [0, 1, 2]

    run(work())


@pytest.mark.parametrize("key", [b"unserved", b"not a number"])
def test_a_log_that_cannot_be_served(tmp_path: Path, key: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.partition.become_leader(1, 1)
        append_foreign(broker, (key, b"x"))
        broker.lead(2)
        await asyncio.sleep(0.05)
        assert broker.ask(Ask("a")) == Answer(ErrorCode.not_coordinator)
        assert broker.ask(Count("a")) == Answer(ErrorCode.not_coordinator)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "its coordinator is not served" in caplog.text


def test_a_load_that_fails_in_passing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.submit(Count("a"))

        def fail(*_: object, **__: object) -> None:
            raise OSError(24, "too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(broker.log, "read", fail)
            patched.setattr(host, "RETRY_SECONDS", 0.2)
            broker.lead(2)
            while not broker.failed:
                await asyncio.sleep(0.001)
            assert broker.ask(Ask("a")) == Answer(ErrorCode.not_coordinator)
        await broker.loaded()
        assert broker.ask(Ask("a")) == Answer(NONE, 1)

    run(work())


def test_somebody_else_writes_to_the_partition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        assert broker.ask(Count("a")) == Answer(NONE, 1)
        append_foreign(broker, (b"a", b"50"))
        # It is written before anybody notices, and not acknowledged.
        assert broker.ask(Count("b")) == Answer(ErrorCode.not_coordinator)
        await broker.loaded()
        assert broker.ask(Ask("a")) == Answer(NONE, 50)
        assert broker.ask(Ask("b")) == Answer(NONE, 1)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "out of step" in caplog.text


def test_a_fault_of_the_machine_costs_a_reload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        assert broker.ask(Count("a")) == Answer(NONE, 1)
        assert broker.ask(Break()) == Answer(ErrorCode.not_coordinator)
        await broker.loaded()
        assert broker.ask(Ask("a")) == Answer(NONE, 1)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "a fault" in caplog.text


def test_deadlines(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        now_ms = broker.clock.wall_ms()
        broker.machine.alarms += [now_ms + 2_200, now_ms + 2_000, *[now_ms + 2_100] * 200]
        broker.submit(Ask("a"))
        await asyncio.sleep(0.005)
        assert broker.machine.passed == []
        while len(broker.machine.passed) < 202:
            await asyncio.sleep(0.005)
        assert broker.machine.passed == sorted(broker.machine.passed)
        assert broker.machine.counts["alarm"] == 202
        machine = broker.machine
        machine.alarms.append(broker.clock.wall_ms() + 200)
        broker.submit(Ask("a"))
        broker.follow(2)
        await asyncio.sleep(0.3)
        assert len(machine.passed) == 202

    run(work())


def test_a_transaction_ends(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False)
        hosted = broker.coordinators.host(0)
        assert hosted is not None
        marker = EndTransactionMarker(committed=True, coordinator_epoch=3)
        ending = asyncio.ensure_future(hosted.end_transaction(5, 0, marker, 0))
        await asyncio.sleep(0.01)
        assert not ending.done()
        broker.replicate()
        await ending
        assert broker.machine.markers == [(5, True, 0)]
        hopeless = asyncio.ensure_future(hosted.end_transaction(5, 0, marker, 0))
        await asyncio.sleep(0)
        broker.follow(2)
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            await hopeless
        broker.lead(3)
        await broker.loaded()
        assert broker.machine.markers == [(5, True, 0), (5, True, 1)]

    run(work())


def test_a_fault_behind_an_answer_costs_a_reload_on_a_slow_disk_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: DeferredResponse) -> None:
        raise RuntimeError("a fault")

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.pace.is_slow = True
        broker.submit(Count("a")).on_complete(fail)
        await broker.partition.wait_for_idle()
        await asyncio.sleep(0.01)
        await broker.loaded()
        assert await broker.answer(Count("a")) == Answer(NONE, 2)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "out of step" in caplog.text


def test_a_machine_that_fails_when_it_is_loaded_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(alone=False)
        broker.submit(Count("a"))
        monkeypatch.setattr(Tally, "loaded", fail)
        broker.lead(2, alone=False)
        await asyncio.sleep(0.02)
        committed = broker.partition.defer_until_committed(1, 2)
        broker.replicate()
        assert committed.result is NONE
        assert broker.ask(Ask("a")) == Answer(ErrorCode.not_coordinator)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "its coordinator is not served" in caplog.text


def test_alone_answers_wait_for_the_disk_where_the_topic_does(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, flush_messages=1)
        broker.lead()
        deferred = broker.submit(Count("a"))
        assert not deferred.is_done
        assert await broker.answer(Ask("a")) == Answer(NONE, 1)
        assert deferred.result == Answer(NONE, 1)
        assert broker.log.recovery_point == 1

    run(work())
