"""Log dir moves on real files, with concurrent appends."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.ports import Pool
from odradek.config.topic_config import TopicConfig
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.records.batch import parse_batches
from odradek.storage.log.log_dirs import LogDirs, WantedLog
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_moves import LogDirMoves
from odradek.storage.partition.log_dir_threads import LogDirThreads, get_or_create
from odradek.storage.partition.partition import Partition
from tests.record_batches import TestRecord, batch

T = TypeVar("T")

NAME = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=4711)
CLUSTER_ID = "abcdefghijklmnopqrstuA"
DEFAULTS = TopicConfig.resolve()


class Bench:
    """Two log dirs and a partition in the first; plays the part of the node."""

    def __init__(self, directory: Path, config: TopicConfig = DEFAULTS) -> None:
        self.first, self.second = str(directory / "a"), str(directory / "b")
        self.config = config
        self.clock = SystemClock()
        self.executor = ThreadExecutor(dict.fromkeys(Pool, 2))
        self.assigned: list[UUID] = []
        self.refuse: ErrorCode | None = None
        self.before_assignment: Callable[[], Awaitable[None]] | None = None
        self.failed: list[str] = []
        self.throttle = ReplicationThrottle(window_count=11, window_seconds=0.01)

    async def open(self) -> "Bench":
        self.log_dirs = LogDirs.open(
            HostDisk(), [self.first, self.second], node_id=1, cluster_id=CLUSTER_ID, new_id=uuid4
        )
        for job in self.log_dirs.loading_jobs(lambda _: self.config, now_ms=self.clock.wall_ms()):
            assert job() is None
        self.log_dir_moves = LogDirMoves(
            self.log_dirs,
            clock=self.clock,
            assign=self._assign,
            threads_of=self.threads_of,
            throttle=self.throttle,
            on_disk_failure=lambda directory, _: self.fail(directory),
        )
        self.log_dir_moves.delete_duplicates(lambda _: self.assigned[-1] if self.assigned else None)
        wanted = WantedLog(NAME, TOPIC_ID, self.config, self.id_of(self.first))
        (log,) = await get_or_create(self.log_dirs, [wanted], now_ms=self.clock.wall_ms(), threads_of=self.threads_of)
        assert isinstance(log, PartitionLog), log
        self.partition = Partition(
            NAME,
            TOPIC_ID,
            log,
            threads=LogDirThreads(self.log_dirs.dir_of(log), self.executor),
            clock=self.clock,
            on_disk_failure=lambda directory, _: self.fail(directory),
        )
        self.partition.become_leader(1, 0)
        return self

    def threads_of(self, directory: str) -> LogDirThreads:
        return LogDirThreads(directory, self.executor)

    def id_of(self, directory: str) -> UUID:
        return self.log_dirs.directory_ids[directory]

    def fail(self, directory: str) -> None:
        self.failed.append(directory)
        self.log_dirs.fail(directory, OSError(5, "Input/output error"))

    async def _assign(self, partition: Partition, directory_id: UUID) -> None:
        if self.before_assignment is not None:
            await self.before_assignment()
        if self.refuse is not None:
            raise KafkaError(self.refuse)
        self.assigned.append(directory_id)

    async def append(self, value: bytes = b"x") -> None:
        data = bytearray(batch(TestRecord(value)))
        await self.partition.append_exclusively(memoryview(data), parse_batches(data))

    async def done(self) -> None:
        while self.log_dir_moves.destination(NAME) is not None:
            await asyncio.sleep(0.005)

    def content(self) -> bytes:
        log = self.partition.log
        found, offset = b"", log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20, end_offset_exclusive=log.log_end_offset)
            found, offset = found + read.data, read.next_offset
        return found

    def kinds(self, directory: str) -> list[str]:
        """The partition's directories, without the ids in their names."""
        names = (name for name in os.listdir(directory) if name.startswith("orders"))
        return sorted(name.split(".")[0] + (name[name.rindex("-") :] if "." in name else "") for name in names)


def on(tmp_path: Path, test: Callable[[Bench], Awaitable[T]], config: TopicConfig = DEFAULTS) -> T:
    async def run() -> T:
        bench = await Bench(tmp_path, config).open()
        try:
            return await asyncio.wait_for(test(bench), 30)
        finally:
            await bench.log_dir_moves.stop()
            bench.log_dirs.abandon()
            bench.executor.close()

    return asyncio.run(run())


def test_complete_log_dir_move(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        for _ in range(5):
            await bench.append()
        before = bench.content()
        await bench.log_dir_moves.start(bench.partition, bench.second)
        assert bench.log_dir_moves.destination(NAME) == bench.second
        assert bench.kinds(bench.second) == ["orders-0-future"]
        await bench.done()
        assert bench.content() == before
        assert bench.partition.log_dir == bench.second
        assert bench.assigned == [bench.id_of(bench.second)]
        assert (bench.kinds(bench.first), bench.kinds(bench.second)) == (["orders-0-delete"], ["orders-0"])
        assert bench.log_dirs.get(NAME) is bench.partition.log
        await bench.append()
        assert bench.partition.high_watermark == 6

    on(tmp_path, test)


def test_appends_continue_during_a_log_dir_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.storage.log.log_copy.CHUNK_BYTES", 1000)

    async def test(bench: Bench) -> None:
        for _ in range(300):
            await bench.append(b"x" * 200)
        await bench.log_dir_moves.start(bench.partition, bench.second)
        written = 300
        while bench.log_dir_moves.destination(NAME) is not None:
            await bench.append(b"y" * 50)
            written += 1
            await asyncio.sleep(0.001)
        assert written > 300
        await bench.append(b"after")
        headers = parse_batches(bench.content())
        assert [one.base_offset for one in headers] == list(range(written + 1))
        assert bench.partition.high_watermark == written + 1

    on(tmp_path, test)


def test_synced_records_stay_synced_during_a_log_dir_move(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        async def write() -> None:
            for _ in range(100):
                await bench.append()
                await bench.partition.wait_for_sync(bench.partition.log.log_end_offset)

        writing = asyncio.ensure_future(write())
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        await writing
        assert bench.failed == []
        assert bench.partition.log.recovery_point == bench.partition.high_watermark == 100

    on(tmp_path, test, TopicConfig.resolve({"flush.messages": "1"}))


def test_cancelled_log_dir_move_deletes_the_future_log(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.append()
        may_continue = asyncio.Event()

        async def hold() -> None:
            await may_continue.wait()

        bench.before_assignment = hold
        await bench.log_dir_moves.start(bench.partition, bench.second)
        cancelling = asyncio.ensure_future(bench.log_dir_moves.cancel(NAME))
        await asyncio.sleep(0)
        may_continue.set()
        await cancelling
        assert bench.log_dir_moves.destination(NAME) is None
        assert bench.partition.log_dir == bench.first
        assert (bench.kinds(bench.first), bench.kinds(bench.second)) == (["orders-0"], ["orders-0-delete"])

    on(tmp_path, test)


def test_assignment_rejected_by_the_controller_cancels_the_move(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.append()
        bench.refuse = ErrorCode.unknown_topic_id
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        assert bench.partition.log_dir == bench.first
        assert bench.kinds(bench.second) == ["orders-0-delete"]
        assert bench.failed == []

    on(tmp_path, test)


def test_move_that_fails_after_the_assignment_restores_the_old_directory(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.append()

        async def delete_topic() -> None:
            bench.partition.withdraw(ErrorCode.unknown_topic_or_partition)

        bench.before_assignment = delete_topic
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        assert bench.assigned == [bench.id_of(bench.second), bench.id_of(bench.first)]
        assert bench.kinds(bench.second) == ["orders-0-delete"]

    on(tmp_path, test)


def test_restarted_node_resumes_its_log_dir_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.storage.log.log_copy.CHUNK_BYTES", 200)

    async def first_run(bench: Bench) -> bytes:
        for _ in range(50):
            await bench.append(b"x" * 100)
        bench.throttle.bytes_per_second_max = 20_000
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.log_dir_moves.stop()
        assert bench.kinds(bench.second) == ["orders-0-future"]
        return bench.content()

    before = on(tmp_path, first_run)

    async def second_run(bench: Bench) -> None:
        assert bench.partition.log_dir == bench.first
        bench.log_dir_moves.resume({NAME: bench.partition}.get)
        assert bench.log_dir_moves.destination(NAME) == bench.second
        await bench.done()
        assert bench.partition.log_dir == bench.second
        assert bench.content() == before

    on(tmp_path, second_run)


def test_crash_between_promotion_and_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def first_run(bench: Bench) -> UUID:
        for _ in range(5):
            await bench.append()
        monkeypatch.setattr(bench.log_dirs, "delete", lambda *_: None)
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        assert (bench.kinds(bench.first), bench.kinds(bench.second)) == (["orders-0"], ["orders-0"])
        return bench.id_of(bench.second)

    known = on(tmp_path, first_run)

    async def second_run(bench: Bench) -> None:
        assert bench.partition.log_dir == bench.second
        assert bench.partition.log.log_end_offset == 5
        assert bench.kinds(bench.first) == ["orders-0-delete"]

    class Knowing(Bench):
        async def open(self) -> Bench:
            self.assigned.append(known)
            return await super().open()

    async def run() -> None:
        bench = await Knowing(tmp_path).open()
        try:
            await second_run(bench)
        finally:
            bench.log_dirs.abandon()
            bench.executor.close()

    asyncio.run(run())


def test_failure_of_the_destination_disk_affects_only_the_future_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(bench: Bench) -> None:
        await bench.append()

        def broken(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(bench.log_dirs, "promote", broken)
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        assert bench.failed == [bench.second]
        assert bench.partition.log_dir == bench.first
        # The controller knows the original directory again.
        assert bench.assigned[-1] == bench.id_of(bench.first)
        await bench.append()
        assert bench.partition.high_watermark == 2

    on(tmp_path, test)


def test_future_log_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(bench: Bench) -> None:
        def broken(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(bench.log_dirs, "create_future", broken)
        with pytest.raises(OSError, match="No space"):
            await bench.log_dir_moves.start(bench.partition, bench.second)
        assert bench.log_dir_moves.destination(NAME) is None

    on(tmp_path, test)


def test_failure_of_the_source_disk_keeps_the_future_log(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.append()

        async def fail_source() -> None:
            bench.partition.withdraw(ErrorCode.kafka_storage_error)
            bench.fail(bench.first)

        bench.before_assignment = fail_source
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        assert bench.kinds(bench.second) == ["orders-0-future"]

    on(tmp_path, test)


def test_log_dir_moves_are_throttled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.storage.log.log_copy.CHUNK_BYTES", 1000)

    async def test(bench: Bench) -> float:
        for _ in range(10):
            await bench.append(b"x" * 900)
        bench.throttle.bytes_per_second_max = 40_000
        started = bench.clock.monotonic()
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        return bench.clock.monotonic() - started

    # Ten kilobytes at forty per second; no pause follows the last chunk.
    assert on(tmp_path, test) > 0.15


def test_source_disk_failure_during_the_replacement_takes_the_partition_offline(tmp_path: Path) -> None:
    """The replica is offline: its new log must not be served."""

    async def test(bench: Bench) -> None:
        await bench.append()
        promote = bench.log_dirs.promote

        def promote_too_late(log: PartitionLog) -> None:
            promote(log)
            bench.partition.withdraw(ErrorCode.kafka_storage_error)

        bench.log_dirs.promote = promote_too_late  # type: ignore[method-assign]
        await bench.log_dir_moves.start(bench.partition, bench.second)
        await bench.done()
        assert bench.assigned == [bench.id_of(bench.second), bench.id_of(bench.first)]
        assert bench.partition.log_dir == bench.first
        assert (bench.kinds(bench.first), bench.kinds(bench.second)) == (["orders-0"], ["orders-0"])

    on(tmp_path, test)


def test_hung_disk_of_the_old_log_dir_does_not_take_the_new_one_offline(tmp_path: Path) -> None:
    """A sync of the original may hang while its records can be read: then the replica moves, and continues."""

    async def test(bench: Bench) -> None:
        responds = threading.Event()
        old = LogDirThreads(bench.first, bench.executor)
        partition = bench.partition
        partition.threads = old
        partition._sync.threads = old
        await bench.append()
        flush, log = partition.log.flush, partition.log
        log.flush = lambda up_to_offset=None: (responds.wait(20), flush(up_to_offset))[1]  # type: ignore[method-assign]
        try:
            partition._sync_in_background(1)
            await asyncio.sleep(0.05)
            await bench.log_dir_moves.start(partition, bench.second)
            await bench.done()
            assert partition.log_dir == bench.second
            old.fail(OSError(110, "The disk does not respond"))
            await partition.wait_for_idle()
            assert bench.failed == []
            await bench.append()
            await partition.flush()
            assert partition.log.recovery_point == 2
        finally:
            responds.set()

    on(tmp_path, test)
