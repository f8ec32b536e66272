"""Partitions whose disk fails while a role change is queued or running get no role."""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ports import Pool
from odradek.broker.broker import Broker
from odradek.core.metadata.difference import difference
from odradek.core.metadata.image import ClusterImage
from odradek.host.disk import HostDisk
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import Partition
from tests.unit.broker.fake_broker import CLUSTER_ID, DIRECTORY_ID, NODE_ID, FakeBroker, broker_image, partition_image

T = TypeVar("T")
REPLICAS = {"replicas": (NODE_ID, 2), "directories": (DIRECTORY_ID, DIRECTORY_ID), "isr": (NODE_ID, 2)}
BROKEN = OSError(errno.EIO, "Input/output error")


class HeldThreads:
    """Runs work only when the test allows it."""

    def __init__(self) -> None:
        self.may_run = asyncio.Event()
        self.may_run.set()
        self.afterwards: Callable[[], object] = lambda: None

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        await self.may_run.wait()
        result = work()
        self.afterwards()
        return result


class FailsTheDisk:
    """A watcher that finds a disk failure when it is notified."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def on_partition_change(self, partition: Partition, added_bytes: int) -> None:
        partition.watchers.pop(self, None)
        self._broker.fail_log_dir(partition.log_dir, BROKEN)


class NoUnreachableLeaders:
    def on_disconnect(self, broker_id: int, broker_epoch: int, host: str, port: int) -> None:
        raise AssertionError("no leader is connected")

    def ids(self) -> tuple[int, ...]:
        return ()


class Stage:
    def __init__(self, directory: Path) -> None:
        made = FakeBroker(directory)
        made.add_topic("orders", state=partition_image(**REPLICAS), held=False)
        made.set_brokers(broker_image(NODE_ID), broker_image(2))
        self.threads = HeldThreads()
        self.broker = Broker(
            made.config,
            cluster_id=CLUSTER_ID,
            clock=made.clock,
            random=made.random,
            executor=self.threads,
            workers=ThreadWorkers(self.threads, HostDisk(), load_program),
            controller=made.controller,
            log_dirs=made.log_dirs,
            threads_of=lambda directory: LogDirThreads(directory, self.threads),
            on_log_dir_failure=lambda directory, error: None,
            unreachable_leaders=NoUnreachableLeaders(),
        )
        self.image = made.image
        self.log_dirs = made.log_dirs
        self.directories = made.directories

    async def lead(self) -> Partition:
        self.broker.begin_with(self.image)
        await self.broker.apply_all()
        partition = self.broker.partition("orders", 0)
        assert partition is not None
        assert partition.is_leader
        return partition

    def with_leader(self, leader: int) -> ClusterImage:
        topic = self.image.topics_by_name["orders"]
        state = partition_image(**REPLICAS, leader=leader, leader_epoch=1, partition_epoch=1)
        changed = replace(topic, partitions={0: state})
        return replace(
            self.image,
            topics_by_name=self.image.topics_by_name.with_changes({"orders": changed}),
            topics_by_id=self.image.topics_by_id.with_changes({topic.id: changed}),
        )


@pytest.mark.parametrize("leader", [NODE_ID, 2, -1])
def test_disk_failure_while_a_role_change_is_queued(tmp_path: Path, leader: int) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path)
        partition = await stage.lead()
        stage.threads.may_run.clear()
        writing = asyncio.ensure_future(partition.run_exclusively(lambda: None))
        await asyncio.sleep(0)
        image = stage.with_leader(leader)
        change = asyncio.ensure_future(stage.broker.on_image(image, difference(stage.image, image)))
        await asyncio.sleep(0.01)
        stage.broker.fail_log_dir(partition.log_dir, BROKEN)
        stage.threads.may_run.set()
        await writing
        await change
        assert partition.unavailable is ErrorCode.kafka_storage_error
        assert (partition.is_leader, partition.leader_state, partition.follower_state) == (False, None, None)
        await stage.broker.stop()

    asyncio.run(scenario())


def test_disk_failure_while_watchers_are_notified_of_a_new_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path)
        partition = await stage.lead()
        partition.watchers[FailsTheDisk(stage.broker)] = None
        image = stage.with_leader(2)
        await stage.broker.on_image(image, difference(stage.image, image))
        assert partition.unavailable is ErrorCode.kafka_storage_error
        assert partition.follower_state is None
        assert not stage.broker._roles._fetchers._sources
        await stage.broker.stop()

    asyncio.run(scenario())


def test_log_on_a_disk_that_failed_during_creation_is_not_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path)
        directory = stage.directories[0]

        def fail_with_the_first_log() -> None:
            if Path(directory, "orders-0").exists():
                stage.log_dirs.fail(directory, BROKEN)

        stage.threads.afterwards = fail_with_the_first_log
        stage.broker.begin_with(stage.image)
        await stage.broker.apply_all()
        assert stage.broker.partition("orders", 0) is None
        assert stage.broker.is_offline("orders", 0)
        await stage.broker.stop()

    asyncio.run(scenario())
