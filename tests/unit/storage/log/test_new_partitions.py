"""Partitions are created without a sync; flushed records survive a power loss, and topics are never mixed up.

On the simulator's disk, which loses unsynced data in many different ways.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

import pytest

from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk, Pool
from odradek.records.batch import parse_batches
from odradek.sim.computer import Computer
from odradek.sim.world import simulated_world
from odradek.storage.log.log_dirs import LogDirs, WantedLog
from odradek.storage.log.meta_properties import MetaProperties, write_meta_properties
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.partition_metadata import read_topic_id
from odradek.storage.partition.log_dir_threads import LogDirThreads, get_or_create
from tests.unit.storage.log.log_support import DEFAULTS, NOW_MS, TOPIC_ID, batch

T = TypeVar("T")
DIRECTORY = "/data"
NAMES = [TopicPartition("orders", number) for number in range(6)]
OTHER_ID = UUID(int=77)
SEEDS = range(150)


class Inline:
    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        return work()


class Broker:
    """Log dirs on a machine that may lose power."""

    def __init__(self, computer: Computer) -> None:
        self.computer = computer
        self.disk: Disk = computer.new_process().disk
        self.disk.make_dirs(DIRECTORY)
        write_meta_properties(self.disk, DIRECTORY, MetaProperties("cluster", 1, UUID(int=1000)))
        self.start()

    def start(self, topic_id: UUID = TOPIC_ID) -> None:
        new_id = map(UUID, map("{:032x}".format, count(2000))).__next__
        self.dirs = LogDirs.open(self.disk, [DIRECTORY], node_id=1, cluster_id="cluster", new_id=new_id)
        jobs = self.dirs.loading_jobs(
            lambda _: DEFAULTS, now_ms=NOW_MS, is_stray=lambda _, found: found is not None and found != topic_id
        )
        assert not any(job() for job in jobs)
        wanted = [WantedLog(name, topic_id, DEFAULTS) for name in NAMES]
        made = asyncio.run(
            get_or_create(self.dirs, wanted, now_ms=NOW_MS, threads_of=lambda path: LogDirThreads(path, Inline()))
        )
        self.logs: list[PartitionLog] = [log for log in made if isinstance(log, PartitionLog)]
        assert len(self.logs) == len(NAMES)

    def lose_power(self) -> None:
        self.computer.lose_power()
        self.computer.switch_on()
        self.disk = self.computer.new_process().disk

    def kill(self) -> None:
        self.computer.kill()
        self.disk = self.computer.new_process().disk

    def stop(self) -> None:
        assert not any(job() for job in self.dirs.closing_jobs())
        self.dirs.close(broker_epoch=1)

    def identities(self) -> set[UUID | None]:
        return {read_topic_id(self.disk, log.directory) for log in self.logs} | {log.topic_id for log in self.logs}


def append(log: PartitionLog, records: int) -> None:
    data = bytearray(batch(records))
    log.append_as_leader(data, parse_batches(data), leader_epoch=0, now_ms=NOW_MS)


def in_many_worlds(story: Callable[[Broker], Any]) -> None:
    for seed in SEEDS:
        with simulated_world(seed) as world:
            story(Broker(world.add_computer("one")))


def test_flushed_records_of_a_new_partition_survive_power_loss() -> None:
    def story(broker: Broker) -> None:
        flushed, unflushed, *_ = broker.logs
        append(flushed, 3)
        append(unflushed, 3)
        flushed.flush()
        append(flushed, 1)
        broker.lose_power()
        broker.start()
        assert broker.logs[0].log_end_offset in (3, 4)
        assert broker.logs[1].log_end_offset in (0, 3)
        assert [log.log_end_offset for log in broker.logs[2:]] == [0] * 4
        assert broker.identities() == {TOPIC_ID}

    in_many_worlds(story)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_records_flushed_after_a_restart_survive_power_loss(clean: bool) -> None:
    """The previous run left unsynced directories."""

    def story(broker: Broker) -> None:
        append(broker.logs[1], 2)
        if clean:
            broker.stop()
        else:
            broker.kill()
        broker.start()
        append(broker.logs[0], 3)
        broker.logs[0].flush()
        broker.logs[1].flush()
        broker.lose_power()
        broker.start()
        assert [log.log_end_offset for log in broker.logs] == [3, 2, 0, 0, 0, 0]
        assert broker.identities() == {TOPIC_ID}

    in_many_worlds(story)


def test_clean_shutdown_of_a_new_partition_survives_power_loss() -> None:
    def story(broker: Broker) -> None:
        append(broker.logs[0], 3)
        broker.stop()
        broker.lose_power()
        broker.start()
        assert [log.log_end_offset for log in broker.logs] == [3, 0, 0, 0, 0, 0]
        assert broker.identities() == {TOPIC_ID}

    in_many_worlds(story)


def test_records_of_a_deleted_topic_do_not_reappear_in_a_new_one() -> None:
    """The topic was deleted and recreated while this broker was down and had lost the topic ID but not the records."""

    def story(broker: Broker) -> None:
        for log in broker.logs:
            append(log, 3)
        broker.lose_power()
        broker.start(OTHER_ID)
        assert [log.log_end_offset for log in broker.logs] == [0] * 6
        assert broker.identities() == {OTHER_ID}

    in_many_worlds(story)


def test_empty_directory_without_topic_id_is_reused() -> None:
    def story(broker: Broker) -> None:
        broker.disk.remove(f"{broker.logs[0].directory}/partition.metadata")
        broker.kill()
        broker.start()
        assert broker.identities() == {TOPIC_ID}
        assert not any(name.endswith("-stray") for name in broker.disk.list_dir(DIRECTORY))

    in_many_worlds(story)


@pytest.mark.parametrize("size", [1, 10, 11, 25, 42])
def test_partial_topic_id_is_ignored(size: int) -> None:
    """The disk was full when the partition was created."""

    def story(broker: Broker) -> None:
        file = broker.disk.open(f"{broker.logs[0].directory}/partition.metadata")
        assert file.size() == 43
        file.truncate(size)
        file.close()
        broker.kill()
        broker.start()
        assert broker.identities() == {TOPIC_ID}

    in_many_worlds(story)


def test_records_of_a_directory_without_topic_id_are_kept() -> None:
    """As left by a broker without topic IDs after a clean shutdown."""

    def story(broker: Broker) -> None:
        append(broker.logs[0], 3)
        broker.stop()
        broker.disk.remove(f"{broker.logs[0].directory}/partition.metadata")
        broker.start()
        broker.lose_power()
        broker.start()
        assert broker.logs[0].log_end_offset == 3
        assert broker.identities() == {TOPIC_ID}

    in_many_worlds(story)
