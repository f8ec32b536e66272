"""Assigns follower partitions to fetchers: one fetcher per leader and log dir, created with its first partition.

A fetcher waits for appends before it fetches again. So partitions whose disk hangs share it with no other log dir.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from odradek.base.background import start_task
from odradek.base.ports import Clock
from odradek.broker.replicas.replica_fetcher import LeaderEndpoint, ReplicaFetcher
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.server.security import UNSECURED_PEER, PeerSecurity
from odradek.storage.partition.partition import Partition


class _Source(NamedTuple):
    """Where a fetcher fetches from, and the log dir it appends to."""

    leader_id: int
    log_dir: str


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
        peer_security: PeerSecurity = UNSECURED_PEER,
    ) -> None:
        self._config: Final = config
        self._image: Final = image
        self._broker_epoch: Final = broker_epoch
        self._throttle: Final = throttle
        self._clock: Final = clock
        self._on_disk_failure: Final = on_disk_failure
        self._on_leader_disconnect: Final = on_leader_disconnect
        self._on_truncation: Final = on_truncation
        self._peer_security: Final = peer_security
        self._fetchers: Final[dict[_Source, ReplicaFetcher]] = {}
        self._sources: Final[dict[Partition, _Source]] = {}
        self._waiting: Final[dict[Partition, int]] = {}
        """Partitions whose leader has no known endpoint yet."""
        self._stopping: Final[set[asyncio.Task[None]]] = set()
        self._is_stopped = False

    def follow(self, partition: Partition, leader_id: int) -> None:
        self.leave(partition)
        if self._is_stopped:
            return
        source = _Source(leader_id, partition.log_dir)
        fetcher = self._fetcher_of(source)
        if fetcher is None:
            self._waiting[partition] = leader_id
        else:
            self._sources[partition] = source
            fetcher.add(partition)

    def leave(self, partition: Partition) -> None:
        self._waiting.pop(partition, None)
        source = self._sources.pop(partition, None)
        fetcher = None if source is None else self._fetchers.get(source)
        if fetcher is not None:
            fetcher.remove(partition)

    def on_brokers_change(self, broker_ids: tuple[int, ...]) -> None:
        """A leader's endpoint may have become known or have changed, or its process may be another one."""
        for broker_id in broker_ids:
            endpoint = self._endpoint(broker_id)
            followers = [partition for partition, leader_id in self._waiting.items() if leader_id == broker_id]
            for source, fetcher in list(self._fetchers.items()):
                if source.leader_id == broker_id and endpoint is not None and fetcher.leader != endpoint:
                    followers += [partition for partition, known in self._sources.items() if known == source]
                    self._stop_fetcher(source)
            for partition in followers:
                self._sources.pop(partition, None)
                self.follow(partition, broker_id)

    def stop_idle(self) -> None:
        for source, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                self._stop_fetcher(source)

    async def stop(self) -> None:
        self._is_stopped = True
        for source in list(self._fetchers):
            self._stop_fetcher(source)
        if self._stopping:
            await asyncio.wait(self._stopping)

    def _fetcher_of(self, source: _Source) -> ReplicaFetcher | None:
        fetcher = self._fetchers.get(source)
        if fetcher is None and (endpoint := self._endpoint(source.leader_id)) is not None:
            fetcher = self._fetchers[source] = ReplicaFetcher(
                endpoint,
                self._config,
                broker_epoch=self._broker_epoch,
                throttle=self._throttle,
                clock=self._clock,
                on_disk_failure=self._on_disk_failure,
                on_leader_disconnect=self._on_leader_disconnect,
                on_truncation=self._on_truncation,
                peer_security=self._peer_security,
            )
        return fetcher

    def _endpoint(self, broker_id: int) -> LeaderEndpoint | None:
        broker = self._image().brokers.get(broker_id)
        if broker is None or (endpoint := broker.endpoint(self._config.inter_broker_listener_name)) is None:
            return None
        return LeaderEndpoint(broker_id, broker.epoch, endpoint.host, endpoint.port)

    def _stop_fetcher(self, source: _Source) -> None:
        task = start_task("stop of a replica fetcher", self._fetchers.pop(source).stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
