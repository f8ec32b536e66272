"""Assigns follower partitions to fetchers: one fetcher per leader, created with its first partition."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.base.background import start_task
from odradek.base.ports import Clock
from odradek.broker.replicas.replica_fetcher import LeaderEndpoint, ReplicaFetcher
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.storage.partition.partition import Partition


class ReplicaFetchers:
    def __init__(
        self,
        config: NodeConfig,
        *,
        image: Callable[[], ClusterImage],
        broker_epoch: Callable[[], int],
        throttle: ReplicationThrottle,
        clock: Clock,
        on_disk_failure: Callable[[str, OSError], None],
        on_leader_disconnect: Callable[[LeaderEndpoint], None],
        on_truncation: Callable[[Partition, int], Awaitable[None]],
    ) -> None:
        self._config: Final = config
        self._image: Final = image
        self._broker_epoch: Final = broker_epoch
        self._throttle: Final = throttle
        self._clock: Final = clock
        self._on_disk_failure: Final = on_disk_failure
        self._on_leader_disconnect: Final = on_leader_disconnect
        self._on_truncation: Final = on_truncation
        self._fetchers: Final[dict[int, ReplicaFetcher]] = {}
        self._leaders: Final[dict[Partition, int]] = {}
        self._waiting: Final[dict[Partition, int]] = {}
        """Partitions whose leader has no known endpoint yet."""
        self._stopping: Final[set[asyncio.Task[None]]] = set()
        self._is_stopped = False

    def follow(self, partition: Partition, leader_id: int) -> None:
        self.leave(partition)
        if self._is_stopped:
            return
        fetcher = self._fetcher_of(leader_id)
        if fetcher is None:
            self._waiting[partition] = leader_id
        else:
            self._leaders[partition] = leader_id
            fetcher.add(partition)

    def leave(self, partition: Partition) -> None:
        self._waiting.pop(partition, None)
        leader_id = self._leaders.pop(partition, None)
        fetcher = None if leader_id is None else self._fetchers.get(leader_id)
        if fetcher is not None:
            fetcher.remove(partition)

    def on_brokers_change(self, broker_ids: tuple[int, ...]) -> None:
        """A leader's endpoint may have become known or have changed, or its process may be another one."""
        for broker_id in broker_ids:
            fetcher = self._fetchers.get(broker_id)
            endpoint = self._endpoint(broker_id)
            followers = [partition for partition, leader_id in self._waiting.items() if leader_id == broker_id]
            if fetcher is not None and endpoint is not None and fetcher.leader != endpoint:
                followers += [partition for partition, leader_id in self._leaders.items() if leader_id == broker_id]
                self._stop_fetcher(broker_id)
            for partition in followers:
                self._leaders.pop(partition, None)
                self.follow(partition, broker_id)

    def stop_idle(self) -> None:
        for leader_id, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                self._stop_fetcher(leader_id)

    async def stop(self) -> None:
        self._is_stopped = True
        for leader_id in list(self._fetchers):
            self._stop_fetcher(leader_id)
        if self._stopping:
            await asyncio.wait(self._stopping)

    def _fetcher_of(self, leader_id: int) -> ReplicaFetcher | None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None and (endpoint := self._endpoint(leader_id)) is not None:
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(
                endpoint,
                self._config,
                broker_epoch=self._broker_epoch,
                throttle=self._throttle,
                clock=self._clock,
                on_disk_failure=self._on_disk_failure,
                on_leader_disconnect=self._on_leader_disconnect,
                on_truncation=self._on_truncation,
            )
        return fetcher

    def _endpoint(self, broker_id: int) -> LeaderEndpoint | None:
        broker = self._image().brokers.get(broker_id)
        if broker is None or (endpoint := broker.endpoint(self._config.inter_broker_listener_name)) is None:
            return None
        return LeaderEndpoint(broker_id, broker.epoch, endpoint.host, endpoint.port)

    def _stop_fetcher(self, leader_id: int) -> None:
        task = start_task("stop of a replica fetcher", self._fetchers.pop(leader_id).stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
