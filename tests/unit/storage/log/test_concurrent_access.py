"""Races between one writer and readers or flushes in other threads, one by one.

Where a call marks the moment of the race, the other thread's work runs within it; otherwise real threads run.
"""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.host.disk import HostDisk, HostFile
from odradek.records.batch import check_crc, parse_batches
from odradek.storage.log.batch_file import BatchFile, _cache_position
from odradek.storage.log.checkpoints import RECOVERY_POINT_CHECKPOINT, read_offsets
from odradek.storage.log.deleted_files import DeletedFiles
from odradek.storage.log.durability import Durability
from odradek.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from odradek.storage.log.log_dir import LogDir
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.producer_snapshots import ProducerSnapshots
from odradek.storage.log.producer_state import ProducerState
from odradek.storage.log.reading import LogRead
from odradek.storage.log.segment import Segment
from odradek.storage.log.verification import Verifications
from tests.unit.storage.log.log_support import NAME, NOW_MS, LogBox, batch, config, read_all
from tests.unit.storage.log.test_threads import beside

SECONDS = 0.3


class Meanwhile:
    """Runs another thread's work just before or after a method, on its first call with such a path."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, ending: str = "", *, after: bool = False
    ) -> None:
        self.work: Callable[[], object] | None = None
        original = getattr(owner, method)

        def met(own: Any, *given: Any, **options: Any) -> Any:
            path = given[0] if given and isinstance(given[0], str) else getattr(own, "path", "")
            work = self.work
            if work is None or not path.endswith(ending):
                return original(own, *given, **options)
            self.work = None
            if not after:
                work()
            result = original(own, *given, **options)
            if after:
                work()
            return result

        monkeypatch.setattr(owner, method, met)


# ---- reading


def test_concurrent_readers_share_cached_positions() -> None:
    places: dict[int, int] = {}
    choose = random.Random(5)

    def read() -> None:
        for _ in range(100):
            _cache_position(places, choose.randrange(10_000), 0)

    with beside(read, read, read):
        time.sleep(SECONDS)


def test_truncated_position_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = LogBox(tmp_path)
    for _ in range(10):
        box.append(batch(1, size=100))
    log = box.log
    box.log.release_files()
    meanwhile = Meanwhile(monkeypatch, HostFile, "read", ".log", after=True)

    def another_leader() -> None:
        log.truncate_to(2, NOW_MS)
        for _ in range(10):
            box.append(batch(1, size=37), epoch=1)

    # In the middle of a walk over batches that are then truncated.
    meanwhile.work = another_leader
    log.read(0, 900, end_offset_exclusive=10)
    # Backwards, so that no read caches the position of the next one.
    for offset in reversed(range(12)):
        found = log.read(offset, 300, end_offset_exclusive=12)
        headers = parse_batches(found.data)
        assert headers[0].base_offset == offset
        for header in headers:
            check_crc(found.data, header)


def test_read_during_a_truncation_returns_whole_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = LogBox(tmp_path)
    for _ in range(10):
        box.append(batch(1, size=3000))
    log = box.reopen_cleanly()
    meanwhile = Meanwhile(monkeypatch, HostFile, "read", ".log")
    meanwhile.work = lambda: log.truncate_to(5, NOW_MS)
    found = log.read(0, 1 << 20, end_offset_exclusive=5)
    assert meanwhile.work is None
    assert [header.base_offset for header in parse_batches(found.data)] == list(range(5))


class ReadDuringTruncation:
    """A reader that starts while a truncation runs, and finds its file changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: PartitionLog, owner: type, method: str) -> None:
        """`method` changes the file, or its name."""
        self._log = log
        self._reads_file, self._file_has_changed, self._attempt_ended = (threading.Event() for _ in range(3))
        self._pool = ThreadPoolExecutor(1)
        self._result: Future[LogRead] | None = None
        change, read = getattr(owner, method), HostFile.read

        def change_beside_reader(own: Any, *given: Any) -> None:
            if self._result is None:
                self._result = self._pool.submit(self._read)
                assert self._reads_file.wait(60)
            change(own, *given)
            self._file_has_changed.set()
            # The reader ends its first attempt before the truncation ends, unless it waits for that.
            self._attempt_ended.wait(0.2)

        def read_changed_file(own: HostFile, position: int, size: int) -> bytes:
            if threading.current_thread() is not threading.main_thread() and own.path.endswith(".log"):
                self._reads_file.set()
                assert self._file_has_changed.wait(60)
            return read(own, position, size)

        monkeypatch.setattr(owner, method, change_beside_reader)
        monkeypatch.setattr(HostFile, "read", read_changed_file)

    def _read(self) -> LogRead:
        try:
            return self._log.read(0, 2000, end_offset_exclusive=10)
        finally:
            self._attempt_ended.set()

    def result(self) -> LogRead:
        assert self._result is not None
        with self._pool:
            return self._result.result(60)


def ten_batches(tmp_path: Path) -> PartitionLog:
    box = LogBox(tmp_path)
    for _ in range(10):
        box.append(batch(1, size=300))
    return box.log


@pytest.mark.parametrize("restart", [False, True])
def test_read_that_starts_during_a_truncation_is_retriable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    log = ten_batches(tmp_path)
    if restart:
        reader = ReadDuringTruncation(monkeypatch, log, Segment, "rename_mark")
        log.truncate_fully_to(50, NOW_MS)
    else:
        reader = ReadDuringTruncation(monkeypatch, log, BatchFile, "truncate")
        log.truncate_to(2, NOW_MS)
    with pytest.raises(KafkaError) as raised:
        reader.result()
    assert raised.value.code is ErrorCode.offset_not_available


def test_last_stable_offset_during_a_truncation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that reads from a follower: open transactions stay hidden while the follower truncates."""
    box = LogBox(tmp_path)
    box.produce(7, 0, is_transactional=True)
    for _ in range(5):
        box.append(batch(1))
    log = box.log
    seen: list[int] = []
    meanwhile = Meanwhile(monkeypatch, ProducerState, "replay")
    meanwhile.work = lambda: seen.append(log.last_stable_offset(3))
    log.truncate_to(4, NOW_MS)
    assert seen == [0]
    assert log.last_stable_offset(3) == 0


# ---- indexes


def test_index_loaded_concurrently_by_reader_and_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = LogBox(tmp_path, config=config(index_interval_bytes=1))
    for number in range(5):
        box.append(batch(1, timestamp=NOW_MS + number))
    log = box.reopen_cleanly()
    meanwhile = Meanwhile(monkeypatch, HostFile, "size", ".timeindex")
    meanwhile.work = lambda: box.append(batch(1, timestamp=NOW_MS + 10))
    log.offset_of_max_timestamp()
    assert meanwhile.work is None
    newest = log.offset_of_max_timestamp()
    assert newest is not None
    assert newest.offset == 5
    assert log.active_segment.time_index.entries < 10
    assert not log.active_segment.time_index.is_full


# ---- syncing


def test_flush_of_a_segment_that_retention_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=300, retention_bytes=300))
    for _ in range(10):
        box.append(batch(1, size=50))
    log = box.log
    # The records are of an earlier run, which did not sync them.
    log.abandon_files()
    meanwhile = Meanwhile(monkeypatch, HostDisk, "open", f"{0:020}.log")

    def retain() -> None:
        log.delete_old_segments(NOW_MS, 10)

    meanwhile.work = retain
    log.flush()
    assert log.log_start_offset > 0
    assert log.recovery_point == 10


def test_sync_of_a_deleted_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = ProducerSnapshots(HostDisk(), str(tmp_path))
    snapshots.write(5, [], sync=False)
    meanwhile = Meanwhile(monkeypatch, HostFile, "sync")
    meanwhile.work = lambda: snapshots.mark_deleted(5)
    snapshots.sync()
    assert snapshots.offsets == []


def test_flush_does_not_count_truncated_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Durability, "_sync_batches", lambda *_: None)
    durability = Durability(HostDisk(), 0)

    class Target(int):
        compared = 0

        def __gt__(self, other: int) -> bool:
            self.compared += 1
            if self.compared == 2:
                durability.on_truncation(3, None)  # type: ignore[arg-type]
            return int(self) > other

    durability.flush([], "", Target(10))
    assert durability.recovery_point(20) == 0


# ---- epochs


def test_epoch_lookup_during_a_change(tmp_path: Path) -> None:
    entries = [EpochEntry(number, number * 10) for number in range(6)]
    epochs = LeaderEpochs(HostDisk(), str(tmp_path), list(entries))

    class TruncatingEpoch(int):
        def __lt__(self, other: int) -> bool:
            epochs.truncate_from_start(45)
            return int(self) < other

    assert epochs.end_offset_for(TruncatingEpoch(4), 60) == (4, 50)


def test_epoch_change_during_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = LeaderEpochs(HostDisk(), str(tmp_path))
    epochs.assign_unwritten(1, 5)
    meanwhile = Meanwhile(monkeypatch, HostDisk, "write_atomically")
    meanwhile.work = lambda: epochs.assign(2, 7)
    # By a flush, which has read the entries already and writes last.
    epochs.write_if_changed()
    assert LeaderEpochs.read(HostDisk(), str(tmp_path)).entries == [(1, 5), (2, 7)]


def test_checkpoint_of_a_deleted_partition_does_not_reappear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = LogBox(tmp_path)
    box.append(batch(1))
    box.log.flush()
    log_dir = LogDir.open(HostDisk(), str(tmp_path))
    log_dir.logs[NAME] = box.log
    meanwhile = Meanwhile(monkeypatch, HostDisk, "write_atomically")

    def delete_and_create() -> None:
        del log_dir.logs[NAME]
        log_dir.forget_checkpoints_of(NAME)

    meanwhile.work = delete_and_create
    log_dir.checkpoint_recovery_points()
    assert read_offsets(HostDisk(), log_dir.file(RECOVERY_POINT_CHECKPOINT)) == {}
    log_dir.abandon()


def test_checkpoint_written_concurrently(tmp_path: Path) -> None:
    disk, path = HostDisk(), str(tmp_path / "file")
    with beside(*[lambda data=bytes([one]) * 100: disk.write_atomically(path, data) for one in range(3)]):
        time.sleep(SECONDS)
    assert len(set(disk.read_bytes(path))) == 1
    assert disk.list_dir(str(tmp_path)) == ["file"]


# ---- other files


def test_deleted_file_that_is_already_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partition is deleted meanwhile, and the directory is renamed."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / "file").write_bytes(b"")
    deleted = DeletedFiles(HostDisk())
    deleted.add(str(directory / "file"), 10)
    meanwhile = Meanwhile(monkeypatch, HostDisk, "remove")
    meanwhile.work = lambda: directory.rename(tmp_path / "orders-0.delete")
    deleted.remove_due(10)


def test_verification_starts_while_others_expire() -> None:
    verifications = Verifications()

    class Time(int):
        def __ge__(self, other: int) -> bool:
            verifications.begin(len(verifications._by_producer), 0, 0, epochs_rise=False, now_ms=NOW_MS)
            return int(self) >= other

    for producer_id in range(3):
        verifications.begin(producer_id, 0, 0, epochs_rise=False, now_ms=1)
    verifications.expire(Time(5))
    assert verifications.of(2) is None


def test_log_is_consistent_after_concurrent_access(tmp_path: Path) -> None:
    """Reads and flushes during repeated truncations of a follower."""
    box = LogBox(tmp_path, config=config(segment_bytes=2000, index_interval_bytes=200))
    log, choose = box.log, random.Random(9)
    for _ in range(30):
        box.append(batch(2, size=40))

    def read() -> None:
        end = log.log_end_offset
        try:
            found = log.read(choose.randrange(20), 700, end_offset_exclusive=min(end, 20 + choose.randrange(40)))
            log.aborted_transactions(0, end)
        except KafkaError as error:
            assert error.code is ErrorCode.offset_not_available
            return
        headers = parse_batches(found.data)
        for header in headers:
            check_crc(found.data, header)
        log.epochs.end_offset_for(0, end)

    deadline = time.monotonic() + SECONDS
    with beside(read, read, log.flush, lambda: log.remove_deleted(NOW_MS + 10**9)):
        while time.monotonic() < deadline:
            log.truncate_to(20 + choose.randrange(20), NOW_MS)
            for _ in range(choose.randrange(20)):
                box.append(batch(choose.randint(1, 3), size=choose.randint(10, 90)), epoch=box.leader_epoch + 1)
    read_all(log)
