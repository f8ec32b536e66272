"""The single writer of a partition: it notifies waiting fetches, and a deleted file is not a disk failure."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Executor, Pool
from odradek.broker.fetch_wait import FetchWait
from odradek.config.topic_config import TopicConfig
from odradek.core.replication.follower import FollowerState
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk, HostFile
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.storage.log.log_dir_health import SLOW_SECONDS
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import Partition

T = TypeVar("T")
NAME = TopicPartition("orders", 0)


class Inline:
    """Runs work immediately."""

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        await asyncio.sleep(0)
        return work()


class Fixture:
    def __init__(self, directory: Path, executor: Executor | None = None, **config: str) -> None:
        self.failures: list[tuple[str, OSError]] = []
        log = PartitionLog.open(
            HostDisk(),
            str(directory / "orders-0"),
            topic_partition=NAME,
            topic_id=UUID(int=7),
            config=TopicConfig.resolve({key.replace("_", "."): value for key, value in config.items()}),
            now_ms=0,
        )
        self.partition = Partition(
            NAME,
            UUID(int=7),
            log,
            threads=LogDirThreads(str(directory), executor or Inline()),
            clock=SystemClock(),
            on_disk_failure=lambda log_dir, error: self.failures.append((log_dir, error)),
        )
        self.partition.become_leader(1, 0)

    def append(self, value: bytes = b"x") -> int:
        data = bytearray(build_batch([Record(offset=0, timestamp=0, key=None, value=value, headers=())]))
        return self.partition.append(memoryview(data), parse_batches(data), 1).last_offset


def test_fetch_wakes_only_for_enough_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        woken: list[int] = []
        wait = FetchWait([fixture.partition], 150, lambda: woken.append(fixture.partition.high_watermark))
        wait.begin(10)
        fixture.append()
        assert not woken
        fixture.append(b"y" * 100)
        fixture.append(b"y" * 100)
        # Within the append that brought enough bytes, and only once.
        assert woken == [2]
        assert not fixture.partition.watchers

    asyncio.run(scenario())


def test_fetch_wakes_after_its_wait_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        woken = asyncio.Event()
        FetchWait([fixture.partition], 150, woken.set).begin(0.01)
        await asyncio.wait_for(woken.wait(), 5)
        assert not fixture.partition.watchers

    asyncio.run(scenario())


def test_cancelled_fetch_does_not_wake(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        woken: list[bool] = []
        wait = FetchWait([fixture.partition], 1, lambda: woken.append(True))
        wait.begin(10)
        wait.end()
        fixture.append()
        assert not woken

    asyncio.run(scenario())


def test_fetch_wakes_when_the_partition_becomes_unavailable(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        woken: list[bool] = []
        FetchWait([fixture.partition], 1000, lambda: woken.append(True)).begin(10)
        fixture.partition.withdraw(ErrorCode.unknown_topic_or_partition)
        assert woken
        with pytest.raises(KafkaError):
            fixture.partition.check_leader()

    asyncio.run(scenario())


def test_flush_messages_1_makes_records_readable_after_the_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path, flush_messages="1")
        fixture.append()
        assert fixture.partition.needs_sync()
        assert fixture.partition.high_watermark == 0
        woken: list[int] = []
        FetchWait([fixture.partition], 1_000_000, lambda: woken.append(fixture.partition.high_watermark)).begin(10)
        await fixture.partition.wait_for_sync(1)
        assert woken == [1]

    asyncio.run(scenario())


@pytest.mark.parametrize("deleted", [True, False])
def test_files_that_went_with_their_topic_are_no_broken_disk(
    tmp_path: Path, deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        fixture.append()

        def flush(_: PartitionLog, up_to_offset: int | None = None) -> None:
            raise FileNotFoundError(2, "No such file or directory")

        monkeypatch.setattr(PartitionLog, "flush", flush)
        if deleted:
            fixture.partition.withdraw(ErrorCode.unknown_topic_or_partition)
        fixture.partition._sync_in_background(1)
        await asyncio.gather(*fixture.partition._background)
        assert bool(fixture.failures) is not deleted

    asyncio.run(scenario())


def test_exclusive_job_runs_even_if_its_caller_is_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        done: list[int] = []
        first = asyncio.ensure_future(fixture.partition.run_exclusively(lambda: 1, done.append))
        second = asyncio.ensure_future(fixture.partition.run_exclusively(lambda: 2, done.append))
        await asyncio.sleep(0)
        assert fixture.partition.is_busy
        first.cancel()
        assert await second == 2
        assert done == [1, 2]
        await asyncio.sleep(0)
        assert not fixture.partition.is_busy

    asyncio.run(scenario())


def test_traffic_counts_appends_of_the_leader_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        partition, traffic = fixture.partition, fixture.partition.traffic
        follower = FollowerState(
            leader_id=2,
            leader_epoch=1,
            high_watermark=partition.shared_high_watermark,
            backoff_max_seconds=1.0,
        )
        written = [
            build_batch([Record(offset=0, timestamp=0, key=None, value=b"x" * size, headers=())]) for size in (1, 9)
        ]
        fixture.append(b"x")
        fixture.append(b"x" * 9)
        partition.become_leader(1, 0)
        partition.count_messages()
        assert (traffic.appends, traffic.messages_in, traffic.bytes_in) == (2, 2, sum(map(len, written)))
        partition.become_follower(2, 1, follower)
        copied = build_batch(
            [Record(offset=2, timestamp=0, key=None, value=b"y", headers=())], base_offset=2, leader_epoch=1
        )
        assert await partition.replicate(1, copied, parse_batches(copied))
        partition.count_messages()
        assert (traffic.appends, traffic.messages_in, traffic.replication_bytes_in) == (2, 2, len(copied))
        partition.become_leader(1, 2)
        fixture.append()
        partition.withdraw(ErrorCode.kafka_storage_error)
        assert (traffic.appends, traffic.messages_in) == (3, 3)

    asyncio.run(scenario())


def _spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize(("delay", "is_slow"), [(time.sleep, True), (_spin, False)])
def test_only_a_write_that_waits_moves_appends_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: Callable[[float], None], *, is_slow: bool
) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        fixture.append()
        write_at = HostFile.write_at

        def write_late(file: HostFile, position: int, data: bytes) -> None:
            delay(1.5 * SLOW_SECONDS)
            write_at(file, position, data)

        monkeypatch.setattr(HostFile, "write_at", write_late)
        fixture.append()
        assert fixture.partition.threads.health.is_slow == is_slow

    asyncio.run(scenario())


def test_failed_sync_in_the_old_log_dir_does_not_fail_the_new_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path, flush_messages="1")
        partition = fixture.partition
        fixture.append()
        elsewhere = PartitionLog.open(
            HostDisk(),
            str(tmp_path / "elsewhere"),
            topic_partition=NAME,
            topic_id=UUID(int=7),
            config=partition.log.config,
            now_ms=0,
        )
        copied = partition.log.read(0, 1 << 20, end_offset_exclusive=1).data
        elsewhere.append_as_follower(copied, parse_batches(copied), now_ms=0)

        def flush(up_to_offset: int | None = None) -> None:
            partition.relocate(elsewhere, LogDirThreads("elsewhere", Inline()))
            raise OSError(5, "Input/output error")

        partition.log.flush = flush  # type: ignore[method-assign]
        await partition.wait_for_sync(1)
        assert not fixture.failures

    asyncio.run(scenario())
