"""A disk that hangs must not stop the replication of partitions in other log dirs."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.ids import TopicPartition
from odradek.broker.replicas import replica_fetcher
from odradek.broker.replicas.replica_fetchers import ReplicaFetchers
from odradek.config.topic_config import TopicConfig
from odradek.core.metadata.image import ClusterImage
from odradek.core.replication.follower import FollowerState
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import Partition
from tests.unit.broker.fake_broker import FakeBroker, broker_image
from tests.unit.broker.replicas.test_replica_fetcher import (
    HeldThreads,
    Leader,
    _Link,
    batch,
    empty_response,
    partitions_of,
    response_of,
)

LEADER_ID = 2


class Stage:
    """A follower of one leader, with two log dirs."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.leader = Leader()
        monkeypatch.setattr(replica_fetcher, "Peer", lambda *_, **__: _Link(self.leader))
        self.fetchers = ReplicaFetchers(
            FakeBroker(directory).config,
            image=lambda: ClusterImage(brokers={LEADER_ID: broker_image(LEADER_ID)}),
            broker_epoch=lambda: 1,
            throttle=ReplicationThrottle(window_count=11, window_seconds=1.0),
            clock=SystemClock(),
            on_disk_failure=lambda *_: None,
            on_leader_disconnect=lambda _: None,
            on_truncation=self._on_truncation,
        )

    async def _on_truncation(self, partition: Partition, offset: int) -> None:
        pass

    def follow(self, index: int, log_dir: str, threads: HeldThreads) -> Partition:
        name = TopicPartition("orders", index)
        log = PartitionLog.open(
            HostDisk(),
            str(self.directory / log_dir / str(name)),
            topic_partition=name,
            topic_id=UUID(int=7),
            config=TopicConfig.resolve(),
            now_ms=0,
        )
        partition = Partition(
            name,
            UUID(int=7),
            log,
            threads=LogDirThreads(str(self.directory / log_dir), threads),
            clock=SystemClock(),
            on_disk_failure=lambda *_: None,
        )
        follower = FollowerState(
            leader_id=LEADER_ID, leader_epoch=1, high_watermark=partition.shared_high_watermark, backoff_max_seconds=1.0
        )
        partition.become_follower(LEADER_ID, 1, follower)
        self.fetchers.follow(partition, LEADER_ID)
        return partition

    async def next_request(self) -> tuple[Any, "asyncio.Future[Any]"]:
        return await asyncio.wait_for(self.leader.requests.get(), 5)


def test_hung_log_dir_does_not_stop_replication_to_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path, monkeypatch)
        hangs = HeldThreads()
        hung = stage.follow(0, "hung", hangs)
        healthy = stage.follow(1, "healthy", HeldThreads())
        hangs.may_run.clear()
        requested: set[int] = set()
        sent = False
        while healthy.log.log_end_offset < 3:
            request, response = await stage.next_request()
            requested |= set(partitions_of(request))
            if 0 in partitions_of(request) and not sent:
                sent = True
                response.set_result(response_of(hung, records=batch(0)))
            elif 1 in partitions_of(request) or requested == {0, 1}:
                response.set_result(response_of(healthy, records=batch(healthy.log.log_end_offset)))
            else:
                response.set_result(empty_response())
        assert sent
        assert hung.log.log_end_offset == 0
        hangs.may_run.set()
        await stage.fetchers.stop()

    asyncio.run(scenario())
