"""After an OSError the log is unchanged, and acknowledged records survive any restart."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.host.disk import HostDisk
from odradek.storage.log.partition_log import PartitionLog
from tests.unit.storage.log.faulty_disk import FaultyDisk
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all


def contents(log: PartitionLog) -> list[tuple[int, int]]:
    return [(one.base_offset, one.crc) for one in read_all(log)]


def state(log: PartitionLog) -> tuple[object, ...]:
    return (
        log.log_start_offset,
        log.log_end_offset,
        contents(log),
        {producer: entry.copy() for producer, entry in log.producers.producers.items()},
        log.aborted_transactions(0, 1000),
        log.last_stable_offset(log.log_end_offset),
        list(log.epochs.entries),
    )


def prepared(directory: Path) -> tuple[LogBox, FaultyDisk]:
    disk = FaultyDisk()
    box = LogBox(directory, disk, config=config(segment_bytes=700, index_interval_bytes=100, segment_index_bytes=1200))
    for n in range(4):
        box.append(batch(2, size=30))
        box.produce(1, n, is_transactional=True)
    return box, disk


ACTIONS: dict[str, Callable[[LogBox], object]] = {
    "append": lambda box: box.append(batch(3, size=20)),
    "append in a new epoch": lambda box: box.append(batch(3, size=20), epoch=box.leader_epoch + 1),
    "produce": lambda box: box.produce(1, 4, is_transactional=True),
    "abort": lambda box: box.end_transaction(1, commit=False),
    "roll": lambda box: box.append(batch(1, size=600)),
    "many batches": lambda box: box.append(b"".join(batch(1, size=60) for _ in range(5))),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_failure_at_any_step_of_an_append(tmp_path: Path, action: str) -> None:
    act = ACTIONS[action]
    box, disk = prepared(tmp_path / "count")
    disk.arm(-1)
    act(box)
    steps = disk.steps
    assert steps
    for at in range(len(steps)):
        box, disk = prepared(tmp_path / f"{at}")
        before = state(box.log)
        disk.arm(at)
        epoch = box.leader_epoch
        with pytest.raises(OSError) as caught:
            act(box)
        assert caught.value.errno == errno.ENOSPC
        disk.arm(-1)
        box.leader_epoch = epoch
        after = state(box.log)
        if action == "append in a new epoch" and steps[at][0] != "write_atomically":
            # The epoch has started without a batch, as after an election without appends.
            assert after[:-1] == before[:-1]
        else:
            assert after == before, steps[at]
        # The next append succeeds, and a restart finds everything acknowledged.
        act(box)
        expected = contents(box.log)
        box.disk = HostDisk()
        assert contents(box.reopen_after_kill()) == expected, steps[at]


def test_sync_failure_raises_and_flushes_nothing(tmp_path: Path) -> None:
    box, disk = prepared(tmp_path)
    disk.error = errno.EIO
    disk.fail_kinds = {"sync"}
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            box.log.flush()
        assert caught.value.errno == errno.EIO
        assert box.log.recovery_point == 0


def test_failed_close_raises(tmp_path: Path) -> None:
    box, disk = prepared(tmp_path)
    disk.fail_kinds = {"sync"}
    with pytest.raises(OSError):
        box.log.close()


def test_flush_syncs_every_file_that_recovery_skips(tmp_path: Path) -> None:
    box, disk = prepared(tmp_path)
    disk.arm(-1)
    box.log.flush()
    closed = [segment.base_offset for segment in box.log.segments[:-1]]
    synced = {name for kind, name in disk.steps if kind == "sync"}
    for base_offset in closed:
        for suffix in ("log", "index", "timeindex"):
            assert f"{base_offset:020d}.{suffix}" in synced
    assert f"{box.log.active_segment.base_offset:020d}.log" in synced
    assert any(kind == "sync_dir" for kind, _ in disk.steps)
    assert box.log.recovery_point == box.log.log_end_offset
    # A second flush has nothing to do.
    disk.arm(-1)
    box.log.flush()
    assert disk.steps == []


def test_indexes_of_a_flushed_segment_are_synced_once_it_is_closed(tmp_path: Path) -> None:
    box, disk = prepared(tmp_path)
    box.log.flush()
    active = box.log.active_segment
    box.log.roll(NOW_MS)
    # Its batches are synced, its indexes are not: recovery would have to scan it.
    assert box.log.recovery_point == active.base_offset
    disk.arm(-1)
    box.log.flush(box.log.log_end_offset)
    assert {f"{active.base_offset:020d}.index", f"{active.base_offset:020d}.timeindex"} <= {
        name for kind, name in disk.steps if kind == "sync"
    }
    assert box.log.recovery_point == box.log.log_end_offset


def test_flush_overtaken_by_a_truncation_counts_nothing(tmp_path: Path) -> None:
    box, disk = prepared(tmp_path)
    end = box.log.log_end_offset
    real_step = disk.step

    def truncate_meanwhile(kind: str, path: str) -> None:
        if not path.endswith(".log"):
            return real_step(kind, path)
        disk.step = real_step  # type: ignore[method-assign]
        box.log.truncate_to(end - 3, NOW_MS)
        box.append(batch(3))
        real_step(kind, path)

    disk.step = truncate_meanwhile  # type: ignore[method-assign]
    box.log.flush()
    assert box.log.log_end_offset == end
    assert box.log.recovery_point <= end - 3


def test_shutdown_without_changes_writes_nothing(tmp_path: Path) -> None:
    box, disk = prepared(tmp_path)
    box.reopen_cleanly()
    disk.arm(-1)
    box.log.close()
    assert disk.steps == []
    box.open(had_clean_shutdown=True)
    read_all(box.log)
    disk.arm(-1)
    box.log.close()
    assert disk.steps == []
