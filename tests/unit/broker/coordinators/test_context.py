"""Operations of a coordinator run one after the other; responses complete when their records are committed."""

import asyncio
import logging
from pathlib import Path

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.coordinators import context
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.control import EndTransactionMarker
from odradek.records.record import Record
from odradek.storage.log.batch_file import BatchFile
from tests.unit.broker.coordinators.tally import Break, Broker, Clear, Count, Read, Response, Tally, run

NONE = ErrorCode.none


def append_foreign(broker: Broker, *records: tuple[bytes, bytes]) -> None:
    """As another writer would."""
    data = bytearray(build_batch([Record(key, value, 0) for key, value in records]))
    broker.partition.append(memoryview(data), parse_batches(data), 0)


def test_single_replica_completes_responses_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        assert broker.respond(Count("a")) == Response(NONE, 1)
        assert broker.respond(Count("a", 4)) == Response(NONE, 5)
        assert broker.respond(Read("a")) == Response(NONE, 5)
        assert broker.shard.offsets == [0, 1]
        assert broker.log.log_end_offset == 2

    run(work())


def test_responses_wait_until_followers_have_the_records(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        completed: list[tuple[str, Response]] = []
        for name, command in (("first", Count("a")), ("second", Count("a")), ("look", Read("a"))):
            deferred = broker.submit(command)
            deferred.on_complete(lambda done, name=name: completed.append((name, done.result)))  # type: ignore[misc]
        assert broker.respond(Read("a", committed=False)) == Response(NONE, 2)
        assert completed == []
        broker.replicate()
        assert completed == [("first", Response(NONE, 1)), ("second", Response(NONE, 2)), ("look", Response(NONE, 2))]
        assert broker.respond(Read("a")) == Response(NONE, 2)

    run(work())


def test_cancelled_response_does_not_complete(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        deferred = broker.submit(Count("a"))
        completed: list[DeferredResponse] = []
        deferred.on_complete(completed.append)
        deferred.cancel()
        broker.replicate()
        assert completed == []

    run(work())


def test_uncommitted_write_times_out(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, write_timeout_ms=3000)
        broker.lead(single=False)
        first = asyncio.ensure_future(broker.wait_for_response(Count("a")))
        await asyncio.sleep(1.5)
        second = asyncio.ensure_future(broker.wait_for_response(Count("a", waits_for_written=True)))
        assert await first == Response(ErrorCode.request_timed_out)
        assert not second.done()
        assert await second == Response(ErrorCode.request_timed_out, 2)
        assert broker.shard.written_with == [ErrorCode.request_timed_out]
        broker.replicate()
        assert broker.respond(Read("a")) == Response(NONE, 2)

    run(work())


def test_command_is_rejected_below_min_isr(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False, min_isr=2)
        replication = broker.partition.leader_state
        assert replication is not None
        replication.on_metadata_change(partition_epoch=2, replicas=(1, 2), isr=(1,), now=broker.clock.monotonic())
        assert broker.respond(Count("a")) == Response(ErrorCode.not_enough_replicas)
        assert broker.shard.counts == {}
        assert broker.respond(Read("a", committed=False)) == Response(NONE, 0)

    run(work())


def test_atomic_result_larger_than_a_batch_is_rejected(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, max_message_bytes=500)
        broker.lead()
        for number in range(40):
            broker.submit(Count(f"name {number}"))
        assert broker.respond(Clear(is_atomic=True)) == Response(ErrorCode.message_too_large)
        assert set(broker.shard.counts.values()) == {1}
        assert broker.respond(Clear(is_atomic=False)) == Response(NONE)
        assert set(broker.shard.counts.values()) == {0}
        assert broker.shard.offsets == list(range(80))

    run(work())


def test_unwritable_record_rejects_only_its_command(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        shard = broker.shard
        assert broker.respond(Count("unwritable")) == Response(ErrorCode.unknown_server_error)
        assert broker.shard is shard
        assert broker.respond(Count("a")) == Response(NONE, 1)

    run(work())


def test_write_event_is_reported_after_commit(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        pending = asyncio.ensure_future(broker.wait_for_response(Count("a", 3, waits_for_written=True)))
        await asyncio.sleep(0)
        assert broker.shard.written_with == []
        broker.replicate()
        assert await pending == Response(NONE, 3)
        assert broker.shard.written_with == [NONE]

    run(work())


def test_operations_wait_for_the_append_on_a_slow_disk(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.pace.is_slow = True
        broker.threads.may_run.clear()
        pending = [asyncio.ensure_future(broker.wait_for_response(Count("a"))) for _ in range(3)]
        look = asyncio.ensure_future(broker.wait_for_response(Read("a", committed=False)))
        await asyncio.sleep(0.01)
        assert broker.log.log_end_offset == 0
        assert not look.done()
        broker.threads.may_run.set()
        assert [await one for one in pending] == [Response(NONE, 1), Response(NONE, 2), Response(NONE, 3)]
        assert await look == Response(NONE, 3)
        assert broker.shard.offsets == [0, 1, 2]

    run(work())


def test_leadership_lost_during_a_slow_append(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.pace.is_slow = True
        broker.threads.may_run.clear()
        pending = [asyncio.ensure_future(broker.wait_for_response(Count("a"))) for _ in range(3)]
        await asyncio.sleep(0.01)
        broker.follow(2)
        assert [await one for one in pending] == [Response(ErrorCode.not_coordinator)] * 3
        assert broker.respond(Count("a")) == Response(ErrorCode.not_coordinator)
        broker.threads.may_run.set()
        await broker.partition.wait_for_idle()

    run(work())


def test_disk_failure_rejects_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()

        def fail(*_: object, **__: object) -> None:
            raise OSError(5, "broken")

        monkeypatch.setattr(broker.log, "append_as_leader", fail)
        assert broker.respond(Count("a")) == Response(ErrorCode.kafka_storage_error)
        assert len(broker.failed) == 1
        assert broker.shard.counts == {}

    run(work())


def test_next_leader_loads_what_was_written(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        for number in range(1000):
            broker.submit(Count(f"name {number % 10}"))
        append_foreign(broker, (b"ignored", b"1"))
        broker.follow(2)
        broker.threads.may_run.clear()
        broker.lead(3)
        assert broker.respond(Read("name 3")) == Response(ErrorCode.coordinator_load_in_progress)
        broker.threads.may_run.set()
        await broker.wait_until_loaded()
        assert broker.respond(Read("name 3")) == Response(NONE, 100)
        assert broker.respond(Count("name 3")) == Response(NONE, 101)
        # Only the last record of each key was replayed.
        assert broker.shard.offsets == [*range(990, 1000), 1001]

    run(work())


def test_new_leader_serves_only_after_its_log_is_committed(tmp_path: Path) -> None:
    """The former leader may have returned it to clients: an older response would go back in time."""

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        broker.submit(Count("a"))
        broker.lead(2, single=False)
        await asyncio.sleep(0.02)
        assert broker.respond(Read("a", committed=False)) == Response(ErrorCode.coordinator_load_in_progress)
        broker.replicate()
        assert broker.respond(Read("a")) == Response(NONE, 1)

    run(work())


def test_leadership_lost_while_loading(tmp_path: Path) -> None:
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
        assert broker.respond(Read("a")) == Response(ErrorCode.not_coordinator)

    run(work())


def test_results_of_on_loaded_are_written_before_scheduled_operations(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.submit(Count("loaded"))
        broker.threads.may_run.clear()
        broker.lead(2)
        broker.runtime.schedule_everywhere(lambda shard, now_ms: shard.handle(Count("scheduled meanwhile"), -1, now_ms))
        broker.threads.may_run.set()
        await broker.wait_until_loaded()
        assert broker.shard.counts == {"loaded": 2, "scheduled meanwhile": 1}
        assert broker.shard.offsets == [0, 1, 2]

    run(work())


@pytest.mark.parametrize("key", [b"unserved", b"not a number"])
def test_unreadable_log_is_not_served(tmp_path: Path, key: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.partition.become_leader(1, 1)
        append_foreign(broker, (key, b"x"))
        broker.lead(2)
        await asyncio.sleep(0.05)
        assert broker.respond(Read("a")) == Response(ErrorCode.not_coordinator)
        assert broker.respond(Count("a")) == Response(ErrorCode.not_coordinator)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "Cannot load the coordinator of" in caplog.text


def test_failed_load_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.submit(Count("a"))

        def fail(*_: object, **__: object) -> None:
            raise OSError(24, "too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(BatchFile, "batches", fail)
            patched.setattr(context, "RELOAD_SECONDS", 0.2)
            broker.lead(2)
            while not broker.failed:
                await asyncio.sleep(0.001)
            assert broker.respond(Read("a")) == Response(ErrorCode.not_coordinator)
        await broker.wait_until_loaded()
        assert broker.respond(Read("a")) == Response(NONE, 1)

    run(work())


def test_append_by_another_writer_reloads_the_shard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        assert broker.respond(Count("a")) == Response(NONE, 1)
        append_foreign(broker, (b"a", b"50"))
        # It is written before the context notices the other writer, and is not acknowledged.
        assert broker.respond(Count("b")) == Response(ErrorCode.not_coordinator)
        await broker.wait_until_loaded()
        assert broker.respond(Read("a")) == Response(NONE, 50)
        assert broker.respond(Read("b")) == Response(NONE, 1)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "has diverged from its log" in caplog.text


def test_shard_exception_reloads_the_shard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        assert broker.respond(Count("a")) == Response(NONE, 1)
        assert broker.respond(Break()) == Response(ErrorCode.not_coordinator)
        await broker.wait_until_loaded()
        assert broker.respond(Read("a")) == Response(NONE, 1)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "a fault" in caplog.text


def test_expired_deadlines_are_written(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        now_ms = broker.clock.wall_ms()
        broker.shard.alarms += [now_ms + 2_200, now_ms + 2_000, *[now_ms + 2_100] * 200]
        broker.submit(Read("a"))
        await asyncio.sleep(0.005)
        assert broker.shard.passed == []
        while len(broker.shard.passed) < 202:
            await asyncio.sleep(0.005)
        assert broker.shard.passed == sorted(broker.shard.passed)
        assert broker.shard.counts["alarm"] == 202
        shard = broker.shard
        shard.alarms.append(broker.clock.wall_ms() + 200)
        broker.submit(Read("a"))
        broker.follow(2)
        await asyncio.sleep(0.3)
        assert len(shard.passed) == 202

    run(work())


def test_transaction_marker_is_written_and_replayed(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        hosted = broker.runtime.context(0)
        assert hosted is not None
        marker = EndTransactionMarker(committed=True, coordinator_epoch=3)
        ending = hosted.end_transaction(5, 0, marker, 0)
        await asyncio.sleep(0.01)
        assert not ending.is_done
        broker.replicate()
        assert ending.result is ErrorCode.none
        assert broker.shard.markers == [(5, True, 0)]
        hopeless = hosted.end_transaction(5, 0, marker, 0)
        broker.follow(2)
        assert hopeless.result is ErrorCode.not_leader_or_follower
        broker.lead(3)
        await broker.wait_until_loaded()
        assert broker.shard.markers == [(5, True, 0), (5, True, 1)]

    run(work())


def test_exception_in_a_callback_reloads_the_shard_on_a_slow_disk(
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
        await broker.wait_until_loaded()
        assert await broker.wait_for_response(Count("a")) == Response(NONE, 2)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "has diverged from its log" in caplog.text


def test_shard_that_fails_in_on_loaded_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead(single=False)
        broker.submit(Count("a"))
        monkeypatch.setattr(Tally, "on_loaded", fail)
        broker.lead(2, single=False)
        await asyncio.sleep(0.02)
        committed = broker.partition.defer_until_committed(1, 2)
        broker.replicate()
        assert committed.result is NONE
        assert broker.respond(Read("a")) == Response(ErrorCode.not_coordinator)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert "Cannot load the coordinator of" in caplog.text


def test_single_replica_waits_for_fsync_with_flush_messages_1(tmp_path: Path) -> None:
    async def work() -> None:
        broker = Broker(tmp_path, flush_messages=1)
        broker.lead()
        deferred = broker.submit(Count("a"))
        assert not deferred.is_done
        assert await broker.wait_for_response(Read("a")) == Response(NONE, 1)
        assert deferred.result == Response(NONE, 1)
        assert broker.log.recovery_point == 1

    run(work())
