"""Recovery of logs with offset gaps between segments: compaction leaves them, and so does a power loss."""

import os
from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import parse_batches
from odradek.storage.log.checkpoints import CLEANER_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, write_offsets
from odradek.storage.log.log_dir import LogDir
from odradek.storage.log.partition_log import PartitionLog
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config, read_all
from tests.unit.storage.log.test_compaction_cleaner import Bench
from tests.unit.storage.log.test_log_dirs import ORDERS, Node

SEGMENTS = 7
SEGMENT_OFFSETS = 6


def fill_segments(log: PartitionLog) -> None:
    for _ in range(SEGMENTS):
        for _ in range(2):
            data = bytearray(batch(3))
            log.append_as_leader(data, parse_batches(data), leader_epoch=0, now_ms=NOW_MS)
        log.roll(NOW_MS)


def remove_last_batch(log: PartitionLog, slot: int = 0) -> None:
    """As a power loss or compaction does. Close the log before."""
    os.truncate(log.segments[slot].log.path, len(batch(3)))


def reopen(node: Node, topic_config: TopicConfig | None = None) -> PartitionLog:
    node.kill()
    node.start()
    assert node.load(topic_config or config()) == []
    assert node.dirs.finish_loading() == []
    log = node.dirs.get(ORDERS[0])
    assert log is not None
    return log


def gapped(tmp_path: Path) -> Node:
    """A log with 42 offsets that lost the last three of its first segment."""
    node = Node(tmp_path)
    assert node.dirs.finish_loading() == []
    log = node.create(ORDERS[0])
    fill_segments(log)
    log.release_files()
    remove_last_batch(log)
    return node


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_segments_after_a_gap_stay_if_the_recovery_point_checkpoint_is_missing(
    tmp_path: Path, content: bytes | None
) -> None:
    """Of a topic that was compacted once: without the checkpoint, no segment is known to be unflushed."""
    node = gapped(tmp_path)
    path = Path(node.paths[0], RECOVERY_POINT_CHECKPOINT)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    log = reopen(node)
    assert (log.log_end_offset, len(log.segments)) == (42, SEGMENTS + 1)
    assert len(read_all(log)) == 2 * SEGMENTS - 1
    # Everything is synced, so that the next start knows that the gap is not the result of a power loss.
    assert log.recovery_point == 42
    assert reopen(node).log_end_offset == 42


def test_gap_after_the_recovery_point_ends_the_log_of_a_new_partition(tmp_path: Path) -> None:
    """The checkpoint exists and does not contain the partition yet: a power loss removed records."""
    log = reopen(gapped(tmp_path))
    assert log.log_end_offset == 3


def test_gap_before_the_recovery_point_stays(tmp_path: Path) -> None:
    box = LogBox(tmp_path)
    fill_segments(box.log)
    box.log.release_files()
    remove_last_batch(box.log)
    for recovery_point in range(SEGMENT_OFFSETS, 2 * SEGMENT_OFFSETS + 1):
        assert box.open(recovery_point=recovery_point).log_end_offset == 42
    assert box.open(recovery_point=SEGMENT_OFFSETS - 1).log_end_offset == 3


def test_gap_in_a_log_that_the_cleaner_knows_stays(tmp_path: Path) -> None:
    node = gapped(tmp_path)
    node.dirs.in_every_dir(LogDir.checkpoint_recovery_points)
    write_offsets(node.disk, f"{node.paths[0]}/{CLEANER_CHECKPOINT}", {ORDERS[0]: 0})
    assert reopen(node).log_end_offset == 42


def test_gaps_stay_if_the_cleaner_checkpoint_is_malformed(tmp_path: Path) -> None:
    node = gapped(tmp_path)
    Path(node.paths[0], CLEANER_CHECKPOINT).write_bytes(b"garbage")
    assert reopen(node).log_end_offset == 42


def test_cleaner_checkpoints_a_log_before_it_replaces_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    name = TopicPartition("small", 0)
    bench.add(name, 3)
    checkpoints: list[dict[TopicPartition, int]] = []
    replace_segments = PartitionLog.replace_segments

    def observe(log: PartitionLog, *arguments: object) -> None:
        checkpoints.append(bench.checkpoint())
        replace_segments(log, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PartitionLog, "replace_segments", observe)
    assert bench.clean() is not None
    assert checkpoints == [{name: 0}]
    assert bench.checkpoint() == {name: 3}


def test_follower_keeps_gaps_of_its_leader_inside_segments(tmp_path: Path) -> None:
    """The leader compacted its log before the topic's policy changed. A killed follower loses nothing."""
    leader = LogBox(tmp_path / "leader")
    follower = LogBox(tmp_path / "follower", config=config(segment_bytes=2 * len(batch(3))))
    for count in range(12):
        leader.append(batch(3))
        if count % 3 != 2:
            data = leader.log.read(3 * count, 1000, end_offset_exclusive=3 * count + 3).data
            follower.log.append_as_follower(data, parse_batches(data), now_ms=NOW_MS)
    assert len(follower.log.segments) == 4
    before = [one.base_offset for one in read_all(follower.log)]
    log = follower.reopen_after_kill()
    assert (log.log_end_offset, [one.base_offset for one in read_all(log)]) == (33, before)


def test_follower_starts_a_segment_at_its_first_batch_after_a_gap_out_of_range(tmp_path: Path) -> None:
    follower = LogBox(tmp_path)
    follower.append(batch(3))
    data = bytearray(batch(1))
    headers = parse_batches(data)
    far = 1 << 33
    data[:8] = far.to_bytes(8, "big")
    headers[0].base_offset = far
    assert follower.log.append_as_follower(data, headers, now_ms=NOW_MS).rolled_at == far


def test_end_of_a_moved_log_stays_after_a_kill(tmp_path: Path) -> None:
    """Compaction removed its last records: only the name of an empty segment shows where it ends."""
    node = Node(tmp_path, 2)
    assert node.dirs.finish_loading() == []
    copy = node.dirs.create_future(ORDERS[0], node.new_id(), config(), node.paths[1], NOW_MS)
    data = bytearray(batch(3))
    copy.append_as_leader(data, parse_batches(data), leader_epoch=0, now_ms=NOW_MS)
    copy.roll(NOW_MS, at_least=9)
    copy.log_end_offset = 9
    copy.flush()
    node.dirs.promote(copy)
    assert reopen(node).log_end_offset == 9
