"""A log is loaded into a shard: which records are replayed, in which order, and what happens if that fails."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import WorkerFailed
from odradek.base.ports import Message, Pool, WorkerTask
from odradek.broker.coordinators import loading_program
from odradek.broker.coordinators.loader import LogLoader
from odradek.broker.coordinators.loading_program import LoadedMarker, LoadedRecord, Window, decode_entries
from odradek.host.disk import HostDisk
from odradek.host.executor import ThreadExecutor
from odradek.host.worker_processes import SMALL_BYTES_MAX, WorkerProcesses
from odradek.node.run import WORKER_COMMAND
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.control import EndTransactionMarker, build_end_transaction
from odradek.records.record import Record
from tests.unit.broker.coordinators.tally import Broker, run

Replayed = tuple[int, int, bytes | None, bytes | None] | tuple[int, int, bool]


class RecordingShard:
    def __init__(self) -> None:
        self.replayed: list[Replayed] = []
        self.on_replay: Callable[[], None] = lambda: None

    def replay(self, record: tuple[bytes | None, bytes | None], offset: int, now_ms: int, producer_id: int) -> None:
        self.on_replay()
        self.replayed.append((offset, producer_id, *record))

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        self.replayed.append((offset, producer_id, commits))

    @property
    def offsets(self) -> list[int]:
        return [entry[0] for entry in self.replayed]


class Stage(Broker):
    def __init__(self, directory: Path, workers: Any = None, **configs: Any) -> None:
        super().__init__(directory, **configs)
        self.partition.become_leader(1, 1)
        self.workers = workers or ThreadWorkers(self.threads, HostDisk(), load_program)
        self.recording = RecordingShard()

    def write(self, *records: tuple[bytes | None, bytes | None], **fields: Any) -> None:
        self._append(build_batch([Record(key, value, 0) for key, value in records], **fields))

    def write_in_transaction(self, producer_id: int, *records: tuple[bytes, bytes | None], sequence: int = 0) -> None:
        transaction = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True}
        self.write(*records, base_sequence=sequence, **transaction)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        marker = EndTransactionMarker(committed=commits, coordinator_epoch=1)
        self._append(build_end_transaction(marker, producer_id=producer_id, producer_epoch=0, timestamp=0))

    def _append(self, batch: bytes) -> None:
        data = bytearray(batch)
        self.log.append_as_leader(data, parse_batches(data), leader_epoch=1, now_ms=0)

    def roll(self) -> None:
        self.log.roll(0)

    async def load(self) -> LogLoader:
        shard: Any = self.recording
        loader = LogLoader(
            self.partition, shard, decode=lambda key, value: (key, value), now_ms=lambda: 0, workers=self.workers
        )
        await asyncio.wait_for(loader.load(self.log.log_end_offset), 60)
        return loader


def test_last_value_of_each_key_is_replayed_in_the_order_of_the_log(tmp_path: Path) -> None:
    async def work() -> None:
        stage = Stage(tmp_path)
        stage.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
        stage.roll()
        stage.write((b"c", b"1"), (None, b"without key"), (b"b", None), (b"b", None), (b"b", b"2"))
        loader = await stage.load()
        assert stage.recording.replayed == [
            (2, -1, b"a", b"2"),
            (3, -1, b"c", b"1"),
            (4, -1, None, b"without key"),
            (5, -1, b"b", None),
            (6, -1, b"b", None),
            (7, -1, b"b", b"2"),
        ]
        assert loader.records == 6

    run(work())


def test_all_records_of_transactions_and_their_markers_are_replayed(tmp_path: Path) -> None:
    async def work() -> None:
        stage = Stage(tmp_path)
        stage.write((b"a", b"before"))
        stage.write_in_transaction(7, (b"a", b"1"))
        stage.write_in_transaction(7, (b"a", b"2"), sequence=1)
        stage.write((b"a", b"between"))
        stage.end_transaction(7, commits=True)
        stage.write_in_transaction(8, (b"a", b"3"))
        stage.end_transaction(8, commits=False)
        await stage.load()
        assert stage.recording.replayed == [
            (1, 7, b"a", b"1"),
            (2, 7, b"a", b"2"),
            (3, -1, b"a", b"between"),
            (4, 7, True),
            (5, 8, b"a", b"3"),
            (6, 8, False),
        ]

    run(work())


def test_memory_of_a_load_is_bounded_by_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading_program, "WINDOW_BYTES_MAX", 1000)
    monkeypatch.setattr(loading_program, "MESSAGE_BYTES_MAX", 300)

    async def work() -> None:
        stage = Stage(tmp_path)
        for number in range(60):
            stage.write((b"%d" % (number % 20), b"x" * 50))
        await stage.load()
        offsets = stage.recording.offsets
        assert offsets == sorted(offsets)
        assert offsets[-20:] == list(range(40, 60))
        # Keys that appear in two windows are replayed twice.
        assert 20 < len(offsets) <= 60

    run(work())


def test_load_begins_at_the_log_start_offset(tmp_path: Path) -> None:
    async def work() -> None:
        stage = Stage(tmp_path)
        stage.write((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
        stage.log.log_start_offset = 1
        await stage.load()
        assert stage.recording.offsets == [1, 2]

    run(work())


class ChangingWorkers(ThreadWorkers):
    """Calls `meanwhile` after the segments of the first load were chosen."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.threads, HostDisk(), load_program)
        self.meanwhile: Callable[[], object] | None = None
        self.starts = 0

    def start(self, pool: Pool, request: Message, *, input_bytes: int) -> Any:
        self.starts += 1
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        return super().start(pool, request, input_bytes=input_bytes)


def test_segments_deleted_meanwhile_are_not_missed(tmp_path: Path) -> None:
    async def work() -> None:
        stage = Stage(tmp_path)
        stage.write((b"a", b"1"))
        stage.roll()
        stage.write((b"b", b"1"))
        stage.workers = workers = ChangingWorkers(stage)

        def delete() -> None:
            stage.log.log_start_offset = 1
            assert stage.log.delete_old_segments(0, stage.log.log_end_offset) == 1

        workers.meanwhile = delete
        await stage.load()
        assert workers.starts == 2
        assert stage.recording.offsets == [1]

    run(work())


def test_missing_file_of_an_unchanged_log_is_a_disk_failure(tmp_path: Path) -> None:
    async def work() -> None:
        stage = Stage(tmp_path)
        stage.write((b"a", b"1"))
        os.remove(stage.log.active_segment.log.path)
        with pytest.raises(FileNotFoundError):
            await stage.load()

    run(work())


class DyingTask:
    def __init__(self, task: WorkerTask, messages: int) -> None:
        self._task = task
        self._messages = messages

    async def next(self) -> Message | None:
        if not self._messages:
            raise WorkerFailed("killed by signal 9")
        self._messages -= 1
        return await self._task.next()

    def close(self) -> None:
        self._task.close()


class DyingWorkers(ThreadWorkers):
    """Tasks that are worth a process die after some messages."""

    def __init__(self, stage: Stage, messages: int) -> None:
        super().__init__(stage.threads, HostDisk(), load_program)
        self._messages = messages

    def start(self, pool: Pool, request: Message, *, input_bytes: int) -> Any:
        task = super().start(pool, request, input_bytes=input_bytes)
        return DyingTask(task, self._messages) if input_bytes else task


def test_load_continues_in_a_thread_if_its_process_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading_program, "WINDOW_BYTES_MAX", 1)

    async def work() -> None:
        stage = Stage(tmp_path)
        for number in range(5):
            stage.write((b"%d" % number, b"x"))
        stage.workers = DyingWorkers(stage, messages=2)
        await stage.load()
        assert stage.recording.offsets == [0, 1, 2, 3, 4]

    run(work())
    assert "killed by signal 9" in caplog.text


def test_process_that_dies_within_a_window_fails_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records after the first message of the window are missing, and those of the message would be repeated."""
    monkeypatch.setattr(loading_program, "MESSAGE_BYTES_MAX", 1)

    async def work() -> None:
        stage = Stage(tmp_path)
        stage.write((b"a", b"1"), (b"b", b"1"))
        stage.workers = DyingWorkers(stage, messages=1)
        with pytest.raises(WorkerFailed):
            await stage.load()

    run(work())


def test_large_log_is_loaded_in_a_process(tmp_path: Path) -> None:
    async def work() -> None:
        stage = Stage(tmp_path)
        value = os.urandom(1000)
        for _ in range(SMALL_BYTES_MAX // 100_000 + 1):
            stage.write(*((b"%d" % number, value) for number in range(100)))
        executor = ThreadExecutor(dict.fromkeys(Pool, 1))
        workers = WorkerProcesses(
            executor, stage.workers, sizes=dict.fromkeys(Pool, 1), command=(sys.executable, *WORKER_COMMAND[1:])
        )
        stage.workers = workers
        thread_jobs = stage.threads.runs
        await stage.load()
        assert len(stage.recording.replayed) == 100
        assert stage.recording.offsets[-1] == stage.log.log_end_offset - 1
        assert stage.threads.runs == thread_jobs
        workers.close()
        executor.close()

    run(work())


KEYS = st.none() | st.sampled_from([b"a", b"b", b"c"])
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3), st.sampled_from([-1, -1, 5, 6])), max_size=30)


@given(RECORDS, st.sets(st.integers(0, 30)))
@settings(max_examples=200)
def test_window_drops_only_values_that_later_records_replace(
    records: list[tuple[bytes | None, bytes | None, int]], markers: set[int]
) -> None:
    window = Window()
    expected: list[LoadedRecord | LoadedMarker] = []
    for offset, (key, value, producer_id) in enumerate(records):
        if offset in markers:
            entry: LoadedRecord | LoadedMarker = LoadedMarker(offset, producer_id, bool(offset % 2))
            window.add_marker(entry)
        else:
            entry = LoadedRecord(offset, producer_id, key, value)
            window.add(entry)
            if key is not None and producer_id == -1:
                expected = [one for one in expected if not _is_former(one, key)]
        expected.append(entry)
    messages = list(loading_program._messages(window, 99))
    assert [entry for message in messages for entry in decode_entries(message.data)] == expected
    assert messages[-1].fields == {"next_offset": 99}
    assert window.size_bytes == 0


def _is_former(entry: LoadedRecord | LoadedMarker, key: bytes) -> bool:
    is_value = isinstance(entry, LoadedRecord) and entry.value is not None
    return is_value and entry.producer_id == -1 and entry.key == key
