"""The log cleaner: one log at a time, within its rate limit, exclusively with the writer."""

import asyncio
import errno
import random
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from odradek.base.errors import WorkerFailed
from odradek.base.ids import TopicPartition
from odradek.base.ports import Message, Pool
from odradek.host.disk import HostDisk
from odradek.node.thread_workers import ThreadTask, ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.storage.log.checkpoints import read_offsets
from odradek.storage.log.compaction_cleaner import Cleaned, Cleaner, CleanerSettings
from tests.unit.storage.log.compaction_support import CompactedBox, offsets_of
from tests.unit.storage.log.log_support import NAME, NOW_MS

T = TypeVar("T")


class InlineExecutor:
    def __init__(self) -> None:
        self.before_each: Callable[[], None] = lambda: None

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        self.before_each()
        return work()


class FakePartition:
    def __init__(self, box: CompactedBox, log_dir: str) -> None:
        self.box = box
        self.log = box.log
        self.log_dir = log_dir

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset

    async def run_exclusively(self, work: Callable[[], T]) -> T:
        return work()


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = HostDisk()
        self.executor: InlineExecutor = InlineExecutor()
        self.pauses: list[float] = []
        self.partitions: list[FakePartition] = []
        self.cleaner = self.new_cleaner()

    def new_cleaner(self, **settings: Any) -> Cleaner:
        self.cleaner = Cleaner(
            self.disk,
            [str(self.directory)],
            executor=self.executor,
            threads_of=lambda _: self.executor,
            workers=ThreadWorkers(self.executor, self.disk, load_program),
            random=random.Random(1),
            pause=self._pause,
            settings=CleanerSettings(**settings),
        )
        return self.cleaner

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def add(self, name: TopicPartition, batches: int, **configs: Any) -> FakePartition:
        box = CompactedBox(self.directory / name.topic, **configs)
        box.log.topic_partition = name
        for number in range(batches):
            box.write((b"k", b"%d" % number * 30))
        box.roll()
        partition = FakePartition(box, str(self.directory))
        self.partitions.append(partition)
        return partition

    def clean(self, partitions: Iterable[FakePartition] | None = None) -> Cleaned | None:
        chosen = self.partitions if partitions is None else partitions
        return asyncio.run(self.cleaner.clean_dirtiest(chosen, NOW_MS))  # type: ignore[arg-type]

    def checkpoint(self) -> dict[TopicPartition, int]:
        return read_offsets(self.disk, str(self.directory / "cleaner-offset-checkpoint"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_cleaner_cleans_logs_until_none_is_due(bench: Bench) -> None:
    small, large = bench.add(TopicPartition("small", 0), 3), bench.add(TopicPartition("large", 0), 9)
    names = set()
    while (cleaned := bench.clean()) is not None:
        names.add(cleaned.partition)
        assert cleaned.stats.records_written == 1
    assert names == {TopicPartition("small", 0), TopicPartition("large", 0)}
    assert offsets_of(small.log) == [2] and offsets_of(large.log) == [8]
    assert bench.checkpoint() == {TopicPartition("large", 0): 9, TopicPartition("small", 0): 3}


def test_restart_resumes_from_the_checkpoint(bench: Bench) -> None:
    partition = bench.add(NAME, 5)
    bench.clean()
    bench.new_cleaner()
    assert bench.cleaner.clean_offset(str(bench.directory), NAME) == 5
    assert bench.clean() is None
    partition.box.write((b"k", b"x" * 500))
    partition.box.roll()
    cleaned = bench.clean()
    assert cleaned is not None and (cleaned.first_dirty_offset, cleaned.end_offset) == (5, 6)


def test_topics_without_compaction_are_not_cleaned(bench: Bench) -> None:
    bench.add(NAME, 5, compact=False)
    assert bench.clean() is None


def test_corrupt_cleaner_checkpoint_is_ignored(bench: Bench) -> None:
    (bench.directory / "cleaner-offset-checkpoint").write_text("0\n2\nnonsense\n")
    bench.new_cleaner()
    bench.add(NAME, 5)
    assert bench.clean() is not None
    assert bench.checkpoint() == {NAME: 5}


def test_checkpoint_outside_the_log_is_corrected(bench: Bench) -> None:
    (bench.directory / "cleaner-offset-checkpoint").write_text(f"0\n1\n{NAME.topic} {NAME.partition} 100\n")
    bench.new_cleaner()
    bench.add(NAME, 1, min_cleanable_dirty_ratio=1.0)
    assert bench.clean() is None
    assert bench.checkpoint() == {NAME: 0}


def test_open_transaction_in_the_dirtiest_log_does_not_block_others(bench: Bench) -> None:
    held, free = bench.add(TopicPartition("held", 0), 0), bench.add(TopicPartition("free", 0), 3)
    held.box.write((b"k", b"open"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    held.box.roll()
    bench.partitions = [held, free]
    cleaned = bench.clean()
    assert cleaned is not None and cleaned.partition == TopicPartition("free", 0)


def test_cleaner_respects_its_rate_limit(bench: Bench) -> None:
    bench.add(NAME, 2000)
    bench.new_cleaner(io_max_bytes_per_second=10_000.0)
    cleaned = bench.clean()
    assert cleaned is not None
    stats = cleaned.stats
    total = stats.bytes_read + stats.map_bytes_read + stats.bytes_written
    assert sum(bench.pauses) == pytest.approx(total / 10_000, rel=0.05)


def test_cleaner_without_rate_limit_does_not_pause(bench: Bench) -> None:
    bench.add(NAME, 50)
    bench.new_cleaner(io_max_bytes_per_second=1.7976931348623157e308)
    bench.clean()
    assert bench.pauses == []


def test_corrupt_log_is_skipped_until_restart(bench: Bench) -> None:
    partition = bench.add(NAME, 5)
    partition.box.damage_first_batch()
    assert bench.clean() is None
    assert bench.cleaner.uncleanable == {NAME}
    assert bench.clean() is None
    assert bench.checkpoint() == {}
    asyncio.run(bench.cleaner.forget(str(bench.directory), NAME))
    assert bench.cleaner.uncleanable == set()


def test_log_that_is_corrupt_after_the_first_segment_is_skipped_until_restart(bench: Bench) -> None:
    partition = bench.add(NAME, 5, segment_bytes=300)
    _, second, *_ = partition.log.segments
    with open(second.log.path, "r+b") as file:
        file.seek(65)
        file.write(b"\xff")
    second.release()
    assert bench.clean() is None
    assert bench.cleaner.uncleanable == {NAME}


@pytest.mark.parametrize("failures", [1, 3])
def test_compaction_is_repeated_after_its_worker_failed(
    bench: Bench, failures: int, caplog: pytest.LogCaptureFixture
) -> None:
    partition = bench.add(NAME, 5)
    leftover = Path(partition.log.directory, "00000000000000000000.log.cleaned")

    class FailingWorkers(ThreadWorkers):
        def start(self, pool: Pool, request: Message, *, input_bytes: int) -> ThreadTask:
            nonlocal failures
            if failures:
                failures -= 1
                leftover.write_bytes(b"unfinished")
                raise WorkerFailed("killed by signal 9")
            return super().start(pool, request, input_bytes=input_bytes)

    bench.cleaner._workers = FailingWorkers(bench.executor, bench.disk, load_program)
    while failures:
        assert bench.clean() is None
    assert "Cannot compact" in caplog.text and "killed by signal 9" in caplog.text
    assert bench.cleaner.uncleanable == set()
    assert bench.clean() is not None
    assert offsets_of(partition.log) == [4]
    assert not leftover.exists()


def test_other_logs_are_cleaned_while_a_worker_fails(bench: Bench) -> None:
    bench.add(TopicPartition("dirtier", 0), 9)
    bench.add(TopicPartition("dirty", 0), 3)

    class FailingWorkers(ThreadWorkers):
        def start(self, pool: Pool, request: Message, *, input_bytes: int) -> ThreadTask:
            if "dirtier" in request.fields["directory"]:
                raise WorkerFailed("killed by signal 9")
            return super().start(pool, request, input_bytes=input_bytes)

    bench.cleaner._workers = FailingWorkers(bench.executor, bench.disk, load_program)
    cleaned = bench.clean()
    assert cleaned is not None and cleaned.partition.topic == "dirty"


def test_changed_cleanup_policy_stops_the_pass(bench: Bench) -> None:
    partition = bench.add(NAME, 5)
    calls = 0

    def turn_off() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            partition.log.config = partition.log.config.__class__.resolve({"cleanup.policy": "delete"})

    bench.executor.before_each = turn_off
    assert bench.clean() is None
    # The log has gaps now, which recovery must not mistake for lost records.
    assert bench.checkpoint() == {NAME: 0}
    assert not any(name.endswith(".cleaned") for name in partition.box.files())


def test_disk_error_names_its_log_dir(bench: Bench) -> None:
    partition = bench.add(NAME, 5)

    class FailingDisk(HostDisk):
        def open(self, path: str, **options: Any) -> Any:
            if path.endswith(".cleaned"):
                raise OSError(errno.EIO, "Input/output error")
            return super().open(path, **options)

    bench.disk = FailingDisk()
    bench.new_cleaner()
    with pytest.raises(OSError) as failure:
        bench.clean()
    assert failure.value.filename == partition.log.directory
    assert bench.checkpoint() == {}


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_partition_deleted_during_cleaning_is_not_a_disk_failure(bench: Bench, turn: int) -> None:
    partition = bench.add(NAME, 5)
    partition.log.release_files()
    for segment in partition.log.segments:
        segment._first_batch_timestamp = None
    turns = 0

    def delete() -> None:
        nonlocal turns
        turns += 1
        if turns == turn:
            partition.log.is_deleted = True
            partition.log.move_to(f"{partition.log.directory}-delete")
            partition.log.delete()

    bench.executor.before_each = delete
    assert bench.clean() is None
    assert turns >= turn
    assert bench.cleaner.uncleanable == set()


def test_cancelled_pass_is_closed_by_its_thread(bench: Bench) -> None:
    partition = bench.add(NAME, 5)
    started, may_end = threading.Event(), threading.Event()

    class ThreadExecutor(InlineExecutor):
        async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
            return await asyncio.get_running_loop().run_in_executor(None, work)

    class SlowDisk(HostDisk):
        def open(self, path: str, **options: Any) -> Any:
            if path.endswith(".log.cleaned"):
                started.set()
                assert may_end.wait(10)
            return super().open(path, **options)

    bench.disk = SlowDisk()
    bench.executor = ThreadExecutor()
    cleaner = bench.new_cleaner()

    async def cancel_midway() -> None:
        task = asyncio.create_task(cleaner.clean_dirtiest([partition], NOW_MS))  # type: ignore[list-item]
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_end.set()

    asyncio.run(cancel_midway())  # which waits for the threads
    assert not any(name.endswith(".cleaned") for name in partition.box.files())
    bench.disk, bench.executor = HostDisk(), InlineExecutor()
    bench.new_cleaner()
    assert bench.clean() is not None


def test_truncation_and_deletion_update_the_checkpoint(bench: Bench) -> None:
    bench.add(NAME, 5)
    bench.clean()
    directory = str(bench.directory)
    asyncio.run(bench.cleaner.on_truncation(directory, NAME, 9))
    assert bench.checkpoint() == {NAME: 5}
    asyncio.run(bench.cleaner.on_truncation(directory, NAME, 2))
    assert bench.checkpoint() == {NAME: 2}
    asyncio.run(bench.cleaner.forget(directory, NAME))
    assert bench.checkpoint() == {}
    bench.cleaner.on_log_dir_failure(directory)
    assert bench.clean() is None


def test_log_truncated_during_cleaning_is_clean_up_to_the_truncation(bench: Bench) -> None:
    partition = bench.add(NAME, 5)

    class TruncatedPartition(FakePartition):
        async def run_exclusively(self, work: Callable[[], T]) -> T:
            done = work()
            await bench.cleaner.on_truncation(self.log_dir, NAME, 3)
            return done

    assert bench.clean([TruncatedPartition(partition.box, partition.log_dir)]) is not None
    assert bench.checkpoint() == {NAME: 3}
