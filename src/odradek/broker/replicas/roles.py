"""Makes each partition on this broker leader or follower, as the metadata image requires."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from odradek.base.ports import Clock, ControllerPort
from odradek.broker.coordinators.broker_coordinators import BrokerCoordinators
from odradek.broker.replicas.isr_proposals import IsrProposals
from odradek.broker.replicas.replica_fetcher import LeaderEndpoint
from odradek.broker.replicas.replica_fetchers import ReplicaFetchers
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import TopicConfig
from odradek.core.metadata.image import ClusterImage, PartitionImage
from odradek.core.replication.follower import FollowerState
from odradek.core.replication.leader import LeaderState
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.instruments.replication import IsrCounts
from odradek.server.security import PeerSecurity
from odradek.storage.partition.partition import Partition


class Roles:
    def __init__(
        self,
        config: NodeConfig,
        controller: ControllerPort,
        *,
        image: Callable[[], ClusterImage],
        broker_epoch: Callable[[], int],
        throttle: ReplicationThrottle,
        clock: Clock,
        on_disk_failure: Callable[[str, OSError], None],
        on_leader_disconnect: Callable[[LeaderEndpoint], None],
        on_truncation: Callable[[Partition, int], Awaitable[None]],
        coordinators: BrokerCoordinators,
        peer_security: PeerSecurity,
    ) -> None:
        self._config: Final = config
        self._node_id: Final = config.node_id
        self._image: Final = image
        self._clock: Final = clock
        self._coordinators: Final = coordinators
        self._proposals: Final = IsrProposals(controller, config.node_id, broker_epoch, clock)
        self._fetchers: Final = ReplicaFetchers(
            config,
            image=image,
            broker_epoch=broker_epoch,
            throttle=throttle,
            clock=clock,
            on_disk_failure=on_disk_failure,
            on_leader_disconnect=on_leader_disconnect,
            on_truncation=on_truncation,
            peer_security=peer_security,
        )

    @property
    def isr_counts(self) -> IsrCounts:
        return self._proposals.counts

    def apply(self, partition: Partition, state: PartitionImage) -> None:
        """Gives the partition the role that the image assigns to this broker, if it differs.

        A partition whose disk failed gets no role, even if the image does not know about the failure yet.
        """
        if partition.unavailable is not None:
            return
        if state.leader == self._node_id:
            self._lead(partition, state)
        elif state.leader < 0:
            self._fetchers.leave(partition)
            partition.become_leaderless(state.leader_epoch)
        elif partition.leader_epoch != state.leader_epoch or partition.follower_state is None:
            self._follow(partition, state)
        self._coordinators.update_role(partition)

    def leave(self, partition: Partition) -> None:
        """The partition is no longer served here."""
        self._fetchers.leave(partition)
        self._coordinators.unload(partition)

    def _lead(self, partition: Partition, state: PartitionImage) -> None:
        if not partition.is_leader or partition.leader_epoch != state.leader_epoch:
            self._fetchers.leave(partition)
            has_no_followers = len(state.replicas) == 1
            partition.become_leader(
                self._node_id,
                state.leader_epoch,
                None if has_no_followers else self._new_leader_state(partition, state),
            )
        elif partition.leader_state is not None:
            partition.leader_state.on_metadata_change(
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
                now=self._clock.monotonic(),
            )
        elif len(state.replicas) > 1:
            # The partition had a single replica until now.
            partition.leader_state = self._new_leader_state(partition, state)
        self._proposals.send_if_proposed(partition)

    def _new_leader_state(self, partition: Partition, state: PartitionImage) -> LeaderState:
        return LeaderState(
            broker_id=self._node_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            min_isr=partition.log.config.min_insync_replicas,
            epoch_start_offset=partition.log.log_end_offset,
            log_end_offset=partition.counted_end,
            high_watermark=partition.shared_high_watermark,
            lag_max_seconds=self._config.replica_lag_time_max_ms / 1000,
            brokers=lambda broker_id: self._image().brokers.get(broker_id),
            now=self._clock.monotonic(),
        )

    def _follow(self, partition: Partition, state: PartitionImage) -> None:
        follower_state = partition.follower_state
        if follower_state is None:
            follower_state = FollowerState(
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                high_watermark=partition.shared_high_watermark,
                backoff_max_seconds=self._config.replica_fetch_backoff_ms / 1000,
            )
        else:
            follower_state.follow(state.leader, state.leader_epoch)
        partition.become_follower(state.leader, state.leader_epoch, follower_state)
        if partition.unavailable is None:
            self._fetchers.follow(partition, state.leader)

    # Changes within a role

    def update_config(self, partition: Partition, config: TopicConfig) -> None:
        partition.update_config(config)
        if partition.leader_state is not None:
            partition.leader_state.set_min_isr(config.min_insync_replicas, self._clock.monotonic())

    def send_isr_proposal(self, partition: Partition) -> None:
        self._proposals.send_if_proposed(partition)

    def on_brokers_change(self, broker_ids: tuple[int, ...]) -> None:
        self._fetchers.on_brokers_change(broker_ids)

    def shrink_isrs(self, partitions: Iterable[Partition]) -> None:
        """Called periodically: proposes to remove followers that lag."""
        now = self._clock.monotonic()
        for partition in partitions:
            if partition.leader_state is not None:
                partition.leader_state.tick(now)
                partition.complete_deletions()
                self._proposals.send_if_proposed(partition)
        self._fetchers.stop_idle()

    async def stop(self) -> None:
        self._proposals.stop()
        await self._fetchers.stop()
