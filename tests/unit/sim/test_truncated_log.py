"""Truncated records do not reappear after a power loss."""

from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.disk_port import VirtualDiskPort
from odradek.sim.world import World
from odradek.storage.log.partition_log import PartitionLog

NOW_MS = 1_750_000_000_000


def open_log(disk: VirtualDiskPort) -> PartitionLog:
    return PartitionLog.open(
        disk,
        "/data/t-0",
        topic_partition=TopicPartition("t", 0),
        topic_id=None,
        config=TopicConfig.resolve({"internal.segment.bytes": "300"}),
        now_ms=NOW_MS,
    )


def append(log: PartitionLog, offset: int, epoch: int) -> None:
    data = bytearray(build_batch([Record(None, b"x" * 50, NOW_MS)], base_offset=offset, leader_epoch=epoch))
    log.append_as_follower(data, parse_batches(data), now_ms=NOW_MS)


def epochs_in(log: PartitionLog) -> list[int]:
    epochs: list[int] = []
    while len(epochs) < log.log_end_offset:
        read = log.read(len(epochs), 10_000, end_offset_exclusive=log.log_end_offset)
        epochs += [header.leader_epoch for header in parse_batches(bytes(read.data))]
    return epochs


def test_truncated_records_stay_truncated_after_a_power_loss(world: World) -> None:
    for run in range(20):
        computer = world.add_computer(f"machine{run}")
        disk = computer.new_process().disk
        disk.make_dirs("/data/t-0")
        log = open_log(disk)
        for offset in range(12):
            append(log, offset, 1)
        log.flush()
        assert len(log.segments) > 3
        log.truncate_to(2, NOW_MS)
        # As long as the truncated records, so that any remains of those would follow seamlessly.
        append(log, 2, 2)
        append(log, 3, 2)
        computer.lose_power()
        computer.switch_on()
        found = open_log(computer.new_process().disk)
        assert 2 <= found.log_end_offset <= 4
        assert epochs_in(found) == [1, 1, 2, 2][: found.log_end_offset]
