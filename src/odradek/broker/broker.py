"""The broker role of a node: creates and deletes logs to match the metadata image, and serves the API handlers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from odradek.base.background import start_task
from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, is_disk_failure
from odradek.base.ids import TopicPartition
from odradek.base.ports import Clock, Executor, ForwardingPort, Random, Workers
from odradek.base.principal import Principal
from odradek.broker.coordinators.broker_coordinators import BrokerCoordinators
from odradek.broker.coordinators.internal_topics import InternalTopics
from odradek.broker.directory_assignments import DirectoryAssignments
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.ports import GroupsPort, TransactionsPort, UnreachableLeadersPort
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.record_walks import RecordWalks
from odradek.broker.replicas.roles import Roles
from odradek.config.dynamic import overlay
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import TopicConfig
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.directories import LOST, MIGRATING, UNASSIGNED
from odradek.core.metadata.image import (
    EMPTY_IMAGE,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ClusterImage,
    ConfigResource,
    PartitionImage,
    TopicImage,
)
from odradek.core.replication.throttle import ReplicationThrottle
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.core.transactions.commands import Markers
from odradek.instruments.replication import IsrCounts
from odradek.instruments.traffic import BrokerTraffic
from odradek.server.audit.trail import AuditTrail
from odradek.server.authorization import new_authorizer
from odradek.server.context import HandlerAudit
from odradek.server.security import UNSECURED_PEER, PeerSecurity
from odradek.server.slices import SliceTurns
from odradek.server.throttling import new_client_quotas
from odradek.storage.log.log_dirs import LogDirFailed, LogDirs, WantedLog
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_moves import LogDirMoves
from odradek.storage.partition.log_dir_threads import LogDirThreads, get_or_create
from odradek.storage.partition.partition import Partition
from odradek.storage.partition.rejected_batches import RejectedBeforeCreation

logger = logging.getLogger(__name__)

# Partitions of one metadata change are applied in slices by a few tasks: clients are served in between, and the threads
# that create directories compete with the event loop for the interpreter.
SLICE_PARTITIONS_MAX: Final = 64
APPLY_TASKS: Final = 2

_Assigned = tuple[TopicPartition, UUID, PartitionImage]


class Broker:
    def __init__(
        self,
        config: NodeConfig,
        *,
        cluster_id: str,
        clock: Clock,
        random: Random,
        executor: Executor,
        workers: Workers,
        controller: ForwardingPort,
        log_dirs: LogDirs,
        threads_of: Callable[[str], LogDirThreads],
        unreachable_leaders: UnreachableLeadersPort,
        on_log_dir_failure: Callable[[str, OSError], None],
        peer_security: PeerSecurity = UNSECURED_PEER,
        check_security: Callable[[NodeConfig], Awaitable[None]] | None = None,
        trail: AuditTrail | None = None,
    ) -> None:
        """`trail` leads to the node's audit log, if it has one."""
        self.static_config: Final = config
        self._check_security: Final = check_security
        self.config = config
        self.node_id: Final = config.node_id
        self.cluster_id: Final = cluster_id
        self.clock: Final = clock
        self.random: Final = random
        self.executor: Final = executor
        self.slice_turns: Final = SliceTurns()
        self.authorizer: Final = new_authorizer(config, clock, trail)
        """None: every client may do everything."""
        self.audit: Final = None if trail is None else _new_audit(trail, has_authorizer=self.authorizer is not None)
        self.workers: Final = workers
        self.controller: Final = controller
        self.log_dirs: Final = log_dirs
        self.threads_of: Final = threads_of
        """The threads of a log dir, by its path."""
        self.fetch_sessions: Final = FetchSessions(config.max_incremental_fetch_session_cache_slots, clock, random)
        self.metadata_cache: Final = MetadataCache()
        self.rejected_before_creation: Final = RejectedBeforeCreation()
        self.record_walks: Final = RecordWalks(executor)
        self.client_quotas: Final = new_client_quotas(config)
        self.leader_throttle: Final = _new_throttle(config)
        self._follower_throttle: Final = _new_throttle(config)
        self._move_throttle: Final = _new_throttle(config)
        self._producer_ids: Final = ProducerIds(controller, config.node_id, self._broker_epoch)
        self._assignments: Final = DirectoryAssignments(controller, config.node_id, self._broker_epoch)
        self.log_dir_moves: Final = LogDirMoves(
            log_dirs,
            clock=clock,
            assign=self._assignments.assign,
            threads_of=threads_of,
            throttle=self._move_throttle,
            on_disk_failure=self.fail_log_dir,
        )
        self._coordinators: Final = BrokerCoordinators(
            lambda: self.config,
            image=lambda: self._image,
            clock=clock,
            random=random,
            workers=workers,
            producer_ids=self._producer_ids,
            write_markers=self._write_markers,
            on_disk_failure=self.fail_log_dir,
            peer_security=peer_security,
        )
        self._internal_topics: Final = InternalTopics(self)
        self._roles: Final = Roles(
            config,
            controller,
            image=lambda: self._image,
            broker_epoch=self._broker_epoch,
            throttle=self._follower_throttle,
            clock=clock,
            on_disk_failure=self.fail_log_dir,
            on_leader_disconnect=lambda leader: unreachable_leaders.on_disconnect(*leader),
            on_truncation=self._on_truncation,
            coordinators=self._coordinators,
            peer_security=peer_security,
        )
        self._unreachable_leaders: Final = unreachable_leaders
        self.traffic: Final = BrokerTraffic()
        self._on_log_dir_failure: Final = on_log_dir_failure
        self._image: ClusterImage = EMPTY_IMAGE
        self._partitions: dict[tuple[str, int], Partition] = {}
        # Replicas assigned to this broker that have no log because a log dir is offline.
        self._offline: Final[set[tuple[str, int]]] = set()
        self._config_listeners: Final[list[Callable[[NodeConfig], None]]] = []
        self._deletion_listeners: Final[list[Callable[[str, TopicPartition], Awaitable[None]]]] = []
        self._truncation_listeners: Final[list[Callable[[str, TopicPartition, int], Awaitable[None]]]] = []
        self._failure_listeners: Final[list[Callable[[str], None]]] = []

    # for API handlers

    @property
    def image(self) -> ClusterImage:
        return self._image

    def access_of(self, principal: Principal, host: str) -> Access:
        return UNRESTRICTED if self.authorizer is None else self.authorizer.access_of(principal, host)

    def partition(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def partitions(self) -> Mapping[tuple[str, int], Partition]:
        return self._partitions

    def is_offline(self, topic: str, index: int) -> bool:
        return (topic, index) in self._offline

    @property
    def coordinators(self) -> BrokerCoordinators:
        return self._coordinators

    @property
    def isr_counts(self) -> IsrCounts:
        return self._roles.isr_counts

    def offline_partitions(self) -> int:
        """The number of replicas that cannot be served because a log dir is offline."""
        return len(self._offline) + sum(one.unavailable is not None for one in self._partitions.values())

    def topic_config(self, topic: str) -> TopicConfig:
        return self.config.topic_defaults.with_overrides(self._image.topic_config(topic))

    def unreachable_leaders(self) -> Collection[int]:
        return self._unreachable_leaders.ids()

    @property
    def groups(self) -> GroupsPort:
        return self._coordinators.groups

    @property
    def transactions(self) -> TransactionsPort:
        return self._coordinators.transactions

    def _write_markers(self, markers: Markers) -> DeferredResponse:
        from odradek.broker.apis.write_txn_markers import write_markers

        return write_markers(markers, self)

    def create_internal_topic(self, name: str) -> None:
        self._internal_topics.create(name)

    async def next_producer_id(self) -> int:
        return await self._producer_ids.next()

    def fail_log_dir(self, directory: str, error: OSError) -> None:
        if not is_disk_failure(error):
            logger.error("Log dir %s is temporarily unusable: %s", directory, error)
            return
        for partition in self._partitions.values():
            if partition.log_dir == directory and partition.unavailable is None:
                self._roles.leave(partition)
                partition.withdraw(ErrorCode.kafka_storage_error)
        for listener in self._failure_listeners:
            listener(directory)
        self._on_log_dir_failure(directory, error)

    def send_isr_proposal(self, partition: Partition) -> None:
        self._roles.send_isr_proposal(partition)

    def shrink_isrs(self) -> None:
        """Called periodically: proposes to remove followers that lag."""
        self._roles.shrink_isrs(list(self._partitions.values()))

    async def check_config(self, stored: Mapping[str, str]) -> None:
        """Whether this broker can apply these dynamic configs of its own. Raises KafkaError."""
        if self._check_security is not None:
            await self._check_security(overlay(self.static_config, stored, self._image.default_broker_config()))

    def on_config(self, listener: Callable[[NodeConfig], None]) -> None:
        self._config_listeners.append(listener)

    def on_partition_deleted(self, listener: Callable[[str, TopicPartition], Awaitable[None]]) -> None:
        """The listener receives log dir and name of every deleted partition."""
        self._deletion_listeners.append(listener)

    def on_partition_truncated(self, listener: Callable[[str, TopicPartition, int], Awaitable[None]]) -> None:
        """The listener receives log dir, name and new end of every truncated log."""
        self._truncation_listeners.append(listener)

    def on_log_dir_failure(self, listener: Callable[[str], None]) -> None:
        self._failure_listeners.append(listener)

    # applying the metadata log

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Returns once logs and roles match the image."""
        self._image = image
        if delta.access_control_changed and self.authorizer is not None:
            self.authorizer.update(image.access_control_entries, delta.access_control_changed)
        self._apply_configs(delta.configs_changed)
        if delta.client_quotas_changed:
            self.client_quotas.change(image.client_quotas)
        await self._remove_topics(delta.topics_deleted)
        wanted = [
            (topic, index, topic.partitions[index])
            for topic in (*delta.topics_created, *delta.topics_changed)
            for index in delta.partitions_changed.get(topic.id, ())
        ]
        await self._apply_partitions(wanted, are_new=True)
        if delta.brokers_changed:
            self._roles.on_brokers_change(delta.brokers_changed)
        self._coordinators.on_image_change(delta)

    def begin_with(self, image: ClusterImage) -> None:
        """Sets the image at startup, before any log is opened: it contains the dynamic configs."""
        self._image = image
        if self.authorizer is not None:
            self.authorizer.load(image.access_control_entries)
            self.authorizer.set_ready()
        self._apply_configs([(RESOURCE_BROKER, ""), (RESOURCE_BROKER, str(self.node_id))])
        self.client_quotas.change(image.client_quotas)

    async def apply_all(self) -> None:
        """Applies every partition of the image at startup, using the logs found on disk."""
        await self.executor.run(lambda: self.log_dir_moves.delete_duplicates(self._assigned_directory))
        everything = [
            (topic, index, partition)
            for topic in self._image.topics_by_name.values()
            for index, partition in topic.partitions.items()
        ]
        await self._apply_partitions(everything, are_new=False)
        self.log_dir_moves.resume(self._partitions.get)

    async def stop(self) -> None:
        """Stops the background tasks. The partitions stay open."""
        self._coordinators.stop()
        self._internal_topics.stop()
        await self._roles.stop()
        await self.log_dir_moves.stop()
        self._assignments.stop()

    async def _apply_partitions(
        self, wanted: Iterable[tuple[TopicImage, int, PartitionImage]], *, are_new: bool
    ) -> None:
        mine: list[_Assigned] = []
        for topic, index, state in wanted:
            name = TopicPartition(topic.name, index)
            if self.node_id in state.replicas:
                mine.append((name, topic.id, state))
            elif name in self._partitions or name in self._offline:
                # Reassigned to other brokers.
                await self._remove(name, ErrorCode.not_leader_or_follower)
        waiting = iter(range(0, len(mine), SLICE_PARTITIONS_MAX))

        async def apply_slices() -> None:
            for start in waiting:
                some = mine[start : start + SLICE_PARTITIONS_MAX]
                await self._create_missing(some, are_new=are_new)
                for name, _, state in some:
                    partition = self._partitions.get(name)
                    if partition is not None and partition.unavailable is None:
                        await self._apply_role(partition, state)
                        self._report_directory(partition, state)
                await asyncio.sleep(0)

        if len(mine) <= SLICE_PARTITIONS_MAX:
            await apply_slices()
        else:
            await asyncio.gather(*(apply_slices() for _ in range(APPLY_TASKS)))

    async def _apply_role(self, partition: Partition, state: PartitionImage) -> None:
        """Waits for running appends: when an epoch starts, no append of another epoch may be running.

        If the disk is stalled, the role follows when it responds, and other partitions do not wait for it."""
        if not partition.is_busy:
            self._roles.apply(partition, state)
            return
        waiting = start_task(f"role change of {partition.name}", self._apply_role_exclusively(partition, state))
        if not partition.threads.health.is_stalled:
            await waiting

    async def _apply_role_exclusively(self, partition: Partition, state: PartitionImage) -> None:
        try:
            await partition.run_exclusively(lambda: None, lambda _: self._roles.apply(partition, state))
        except OSError as error:
            # The disk hangs.
            self.fail_log_dir(partition.log_dir, error)

    def _report_directory(self, partition: Partition, state: PartitionImage) -> None:
        """Reports the log dir if this broker chose it, or if the controller knows another one."""
        directory_id = self.log_dirs.directory_ids.get(partition.log_dir)
        is_moving = self.log_dir_moves.destination(partition.name) is not None
        if directory_id is not None and directory_id != state.directory_of(self.node_id) and not is_moving:
            self._assignments.report(partition.name, partition.topic_id, directory_id)

    def _report_offline(self, name: TopicPartition, topic_id: UUID, state: PartitionImage) -> None:
        """Reports a replica as LOST if its log dir is offline and this broker stopped before it could report which dir
        it used: another replica has to lead.

        The controller does not trust a replica that returns after it was reported LOST. So the last replica in the ISR
        is not reported: no other replica could lead, and once its disk is repaired, it can.
        """
        has_other_isr_member = any(one != self.node_id for one in state.isr) or state.replicas == (self.node_id,)
        if state.directory_of(self.node_id) in (UNASSIGNED, MIGRATING) and has_other_isr_member:
            self._assignments.report(name, topic_id, LOST)

    def _assigned_directory(self, name: TopicPartition) -> UUID | None:
        topic = self._image.topics_by_name.get(name.topic)
        partition = None if topic is None else topic.partitions.get(name.partition)
        return (
            None
            if partition is None or self.node_id not in partition.replicas
            else partition.directory_of(self.node_id)
        )

    async def _create_missing(self, some: list[_Assigned], *, are_new: bool) -> None:
        missing = [one for one in some if one[0] not in self._partitions and one[0] not in self._offline]
        for name, *_ in missing:
            # The replica was removed during a log dir move and is assigned again: the rest of the old move must not be
            # mistaken for its log.
            await self.log_dir_moves.cancel(name)
        while missing:
            logs = await get_or_create(
                self.log_dirs,
                [
                    WantedLog(name, topic_id, self.topic_config(name.topic), state.directory_of(self.node_id))
                    for name, topic_id, state in missing
                ],
                is_new=are_new,
                now_ms=self.clock.wall_ms(),
                threads_of=self.threads_of,
            )
            again: list[_Assigned] = []
            for one, log in zip(missing, logs, strict=True):
                name = one[0]
                if isinstance(log, PartitionLog) and self.log_dirs.dir_of(log) in self.log_dirs.online:
                    self._add(one, log)
                elif isinstance(log, PartitionLog):
                    # Its disk failed meanwhile for another reason.
                    again.append(one)
                elif isinstance(log, LogDirFailed):
                    self.fail_log_dir(log.directory, log.error)
                    if log.directory in self.log_dirs.online:
                        self._mark_offline(name, log)
                    else:
                        # Retry in another log dir.
                        again.append(one)
                else:
                    self._mark_offline(name, log)
                    self._report_offline(*one)
            missing = again

    def _mark_offline(self, name: TopicPartition, reason: Exception) -> None:
        logger.error("Partition %s is offline until the node is restarted: %s", name, reason)
        self._offline.add(name)

    def _add(self, assigned: _Assigned, log: PartitionLog) -> None:
        name, topic_id, state = assigned
        rejected = self.rejected_before_creation
        self._partitions[name] = Partition(
            name,
            topic_id,
            log,
            threads=self.threads_of(self.log_dirs.dir_of(log)),
            clock=self.clock,
            on_disk_failure=self.fail_log_dir,
            high_watermark=None if len(state.replicas) == 1 else self.log_dirs.checkpointed_high_watermark(name),
            rejected_before_creation=rejected.take(topic_id, name.partition)
            or rejected.take(name.topic, name.partition),
        )

    async def _remove_topics(self, topics: Iterable[TopicImage]) -> None:
        for topic in topics:
            for index in topic.partitions:
                await self._remove(TopicPartition(topic.name, index), ErrorCode.unknown_topic_or_partition)

    async def _remove(self, name: TopicPartition, reason: ErrorCode) -> None:
        self._offline.discard(name)
        partition = self._partitions.pop(name, None)
        if partition is not None:
            self._roles.leave(partition)
            partition.withdraw(reason)
            self.traffic.retire(name.topic, partition.traffic)
            await self._delete(partition)

    async def _on_truncation(self, partition: Partition, offset: int) -> None:
        try:
            for listener in self._truncation_listeners:
                await listener(partition.log_dir, partition.name, offset)
        except OSError as error:
            self.fail_log_dir(partition.log_dir, error)

    async def _delete(self, partition: Partition) -> None:
        try:
            await partition.run_exclusively(lambda: self.log_dirs.delete(partition.log, self.clock.wall_ms()))
            for listener in self._deletion_listeners:
                await listener(partition.log_dir, partition.name)
        except OSError as error:
            self.fail_log_dir(partition.log_dir, error)

    def _apply_configs(self, changed: Iterable[ConfigResource]) -> None:
        topics = set()
        for kind, name in changed:
            if kind == RESOURCE_TOPIC:
                topics.add(name)
            elif kind == RESOURCE_BROKER and name in ("", str(self.node_id)):
                self.config = overlay(
                    self.static_config,
                    self._image.broker_config(self.node_id),
                    self._image.default_broker_config(),
                )
                self._set_throttles()
                for listener in self._config_listeners:
                    listener(self.config)
                topics.update(topic for topic, _ in self._partitions)
        for (topic, _), partition in self._partitions.items():
            if topic in topics:
                self._roles.update_config(partition, self.topic_config(topic))

    def _set_throttles(self) -> None:
        config = self.config
        self.leader_throttle.bytes_per_second_max = config.leader_replication_throttled_rate
        self._follower_throttle.bytes_per_second_max = config.follower_replication_throttled_rate
        self._move_throttle.bytes_per_second_max = config.replica_alter_log_dirs_io_max_bytes_per_second

    def _broker_epoch(self) -> int:
        registration = self._image.brokers.get(self.node_id)
        return -1 if registration is None else registration.epoch


def _new_throttle(config: NodeConfig) -> ReplicationThrottle:
    return ReplicationThrottle(
        window_count=config.replication_quota_window_num,
        window_seconds=config.replication_quota_window_size_seconds,
    )


def _new_audit(trail: AuditTrail, *, has_authorizer: bool) -> HandlerAudit:
    # Imported only by nodes with an audit log.
    from odradek.broker.audited_requests import BrokerAudit

    return BrokerAudit(trail, has_authorizer=has_authorizer)
