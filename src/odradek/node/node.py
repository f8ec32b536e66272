"""One node from start to stop: addresses, disks, metadata, partitions, clients, in that order, and back.

`start` returns when clients are served. A node that cannot go on says so through `failed`; its process then ends.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, is_disk_failure
from odradek.base.ids import TopicPartition
from odradek.base.ports import Clock, Disk, Executor, Random
from odradek.config.listeners import Listener as Address
from odradek.config.node_config import NodeConfig
from odradek.handlers.apis import BROKER_APIS
from odradek.log.log_dir import LogDirError
from odradek.log.log_dirs import DirFailure, LoadProgress, LogDirs
from odradek.metadata.image import ClusterImage
from odradek.net.dispatch import ApiDispatcher
from odradek.net.limits import NodeConnectionLimits, limits_by_address, limits_by_name
from odradek.net.reachability import Reachability
from odradek.net.server import Listener, ListenError
from odradek.node.broker import Broker
from odradek.node.cleaning import Cleaning
from odradek.node.directories import NodeDirectories, advice, failed_metadata
from odradek.node.maintenance import Maintenance
from odradek.node.membership import Membership
from odradek.node.periodic import Periodic
from odradek.node.quorum_of_one import QuorumError, QuorumOfOne

logger = logging.getLogger(__name__)

CLOSE_IDLE_INTERVAL_MS: Final = 10_000
METADATA_MAINTENANCE_INTERVAL_MS: Final = 60_000
RECOVERY_TOLD_AFTER_BYTES: Final = 256 << 20


class StartError(Exception):
    """The node cannot start; the message is one line that says what to do."""


class Node:
    def __init__(self, config: NodeConfig, *, disk: Disk, clock: Clock, random: Random, executor: Executor) -> None:
        self._config: Final = config
        self._disk: Final = disk
        self._clock: Final = clock
        self._random: Final = random
        self._executor: Final = executor
        self._periodic: Final = Periodic()
        self._listeners: list[Listener] = []
        self._limits: NodeConnectionLimits | None = None
        self._directories: NodeDirectories | None = None
        self._quorum: QuorumOfOne | None = None
        self._membership: Membership | None = None
        self._broker: Broker | None = None
        self._serving = False
        self.failed: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{one.host}:{one.port}" for one in self._advertised())

    # starting

    async def start(self) -> None:
        """Raises StartError for what somebody has to put right."""
        try:
            await self._start()
        except (LogDirError, ListenError, QuorumError) as error:
            raise StartError(str(error)) from error
        except KafkaError as error:
            raise StartError(f"the node could not join its cluster: {error}") from error
        except OSError as error:
            raise StartError(f"{error.filename or 'a log dir'}: {advice(error)}") from error

    async def _start(self) -> None:
        config = self._config
        # A port in use is found out before anything on disk is touched.
        await self._bind_listeners()
        self._directories = directories = NodeDirectories.open(self._disk, config, self._new_id)
        quorum = await self._open_quorum(directories)
        self._broker = broker = Broker(
            config,
            cluster_id=directories.cluster_id,
            clock=self._clock,
            random=self._random,
            executor=self._executor,
            controller=quorum,
            log_dirs=directories.logs,
            log_dir_failed=self._log_dir_failed,
        )
        await self._load_logs(directories.logs, broker, quorum.image)
        quorum.subscribe(broker.on_image)
        # Clients are let in last: whom they find here leads what it is to lead.
        await self._join(quorum, directories)
        await self._serve(broker)
        self._begin_chores(broker)
        self._serving = True

    async def _open_quorum(self, directories: NodeDirectories) -> QuorumOfOne:
        config = self._config
        try:
            self._quorum = quorum = await QuorumOfOne.open(
                config,
                cluster_id=directories.cluster_id,
                directory_id=directories.metadata_directory_id,
                disk=self._disk,
                clock=self._clock,
                random=self._random,
                executor=self._executor,
                had_clean_shutdown=directories.metadata_had_clean_shutdown,
            )
            quorum.failed.add_done_callback(lambda failed: self._metadata_failed(failed.result()))
            await quorum.activate()
        except OSError as error:
            raise StartError(failed_metadata(config.metadata_log_dir, error)) from error
        except KafkaError as error:
            if self._quorum is None or not self._quorum.failed.done():
                raise
            raise StartError(failed_metadata(config.metadata_log_dir, self._quorum.failed.result())) from error
        return quorum

    async def _load_logs(self, log_dirs: LogDirs, broker: Broker, image: ClusterImage) -> None:
        def is_stray(name: TopicPartition, topic_id: UUID | None) -> bool:
            topic = image.topics_by_name.get(name.topic)
            if topic is None or (topic_id is not None and topic.id != topic_id):
                return True
            partition = topic.partitions.get(name.partition)
            return partition is None or broker.node_id not in partition.replicas

        broker.begin_with(image)
        jobs = log_dirs.loading_jobs(
            broker.topic_config,
            now_ms=self._clock.wall_ms(),
            is_stray=is_stray,
            progress=_tell_recovery,
        )
        for failure in await self._load(jobs, self._config.num_recovery_threads_per_data_dir * len(log_dirs.online)):
            if failure is not None and not is_disk_failure(failure.error):
                raise StartError(f"{failure.directory}: {failure.error.strerror}: raise the limit (ulimit -n 100000)")
            if failure is not None:
                self._log_dir_failed(*failure)
        if self.failed.done():
            raise StartError(self.failed.result())
        await broker.hold_all()

    async def _load(self, jobs: Iterable[Callable[[], DirFailure | None]], at_once: int) -> list[DirFailure | None]:
        waiting = iter(jobs)
        results: list[DirFailure | None] = []

        async def one_after_the_other() -> None:
            for job in waiting:
                results.append(await self._executor.run(job))

        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
        return results

    async def _bind_listeners(self) -> None:
        config = self._config
        has_others = len(config.broker_listeners) > 1
        self._limits = limits = NodeConnectionLimits(
            self._clock,
            connections_max=config.max_connections,
            per_address_max=config.max_connections_per_ip,
            per_address_overrides={},
            idle_ms_max=config.connections_max_idle_ms,
            waiting_max=config.socket_listen_backlog_size,
            privileged_listener=config.inter_broker_listener_name if has_others else None,
        )
        for address in config.broker_listeners:
            listener = Listener(
                address.name,
                address.host,
                address.port,
                limits,
                request_bytes_max=config.socket_request_max_bytes,
                backlog=config.socket_listen_backlog_size,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=config.socket_receive_buffer_bytes,
            )
            self._listeners.append(listener)
            await listener.bind()

    async def _serve(self, broker: Broker) -> None:
        self._limits_changed(broker.config)
        broker.on_config(self._limits_changed)
        dispatcher = ApiDispatcher(BROKER_APIS, broker)
        for listener in self._listeners:
            await listener.serve(dispatcher)

    async def _join(self, quorum: QuorumOfOne, directories: NodeDirectories) -> None:
        self._membership = membership = Membership(
            self._config,
            quorum,
            cluster_id=directories.cluster_id,
            incarnation_id=self._new_id(),
            metadata_offset=lambda: quorum.image.offset,
        )
        logs = directories.logs
        await membership.register(self._advertised(), logs.directory_ids.values(), logs.previous_broker_epoch)
        await membership.unfence()

    def _begin_chores(self, broker: Broker) -> None:
        Maintenance(broker, self._periodic).begin()
        self._periodic.once(Cleaning(broker, self._disk).run())
        quorum = self._quorum
        assert quorum is not None
        self._periodic.every("metadata snapshots", lambda: METADATA_MAINTENANCE_INTERVAL_MS, quorum.maintain)
        self._periodic.every("idle connections", self._close_idle_interval_ms, self._close_idle)
        for listener, advertised in zip(self._listeners, self._advertised(), strict=True):
            reachability = Reachability(listener.name, advertised.host, advertised.port)
            listener.on_client(reachability.client_connected)
            self._periodic.once(reachability.check())

    def _advertised(self) -> list[Address]:
        """Where clients are told to go. A port of 0 stands for the one that was given by the system."""
        ports = {listener.name: listener.port for listener in self._listeners}
        return [
            one._replace(host=one.host or socket.getfqdn(), port=one.port or ports.get(one.name, 0))
            for one in self._config.advertised_listeners
        ]

    def _new_id(self) -> UUID:
        while True:
            candidate = UUID(bytes=self._random.randbytes(16), version=4)
            # Kafka's tools read an id that begins with a dash as an option.
            if candidate.bytes[0] >> 2 != 62:
                return candidate

    def _limits_changed(self, config: NodeConfig) -> None:
        assert self._limits is not None
        overrides = config.max_connections_per_ip_overrides
        known = limits_by_address(overrides)
        self._limits.change(
            connections_max=config.max_connections,
            per_address_max=config.max_connections_per_ip,
            per_address_overrides=known,
        )
        if len(known) < len(overrides):
            self._periodic.once(self._resolve_limits(overrides))

    async def _resolve_limits(self, overrides: Mapping[str, int]) -> None:
        assert self._limits is not None
        assert self._broker is not None
        resolved = await limits_by_name(overrides)
        if self._broker.config.max_connections_per_ip_overrides == overrides:
            self._limits.per_address_overrides = {**resolved, **limits_by_address(overrides)}

    def _close_idle_interval_ms(self) -> int:
        idle_ms_max = self._config.connections_max_idle_ms
        return CLOSE_IDLE_INTERVAL_MS if idle_ms_max < 0 else min(CLOSE_IDLE_INTERVAL_MS, max(idle_ms_max // 4, 100))

    async def _close_idle(self) -> None:
        if self._limits is not None:
            self._limits.close_idle()

    # failing

    def _log_dir_failed(self, directory: str, error: OSError) -> None:
        assert self._directories is not None
        log_dirs = self._directories.logs
        if directory not in log_dirs.online:
            return
        directory_id = log_dirs.directory_ids.get(directory)
        logger.error("log dir %s failed and is offline: %s", directory, error)
        log_dirs.fail(directory, error)
        if directory == self._config.metadata_log_dir:
            self._metadata_failed(error)
        elif not log_dirs.online:
            self._fail(f"the last log dir, {directory}, failed: {advice(error)}")
        elif self._membership is not None and directory_id is not None:
            self._membership.report_offline_dirs([directory_id])

    def _metadata_failed(self, error: OSError) -> None:
        self._fail(failed_metadata(self._config.metadata_log_dir, error))

    def _fail(self, reason: str) -> None:
        logger.critical("%s", reason)
        if not self.failed.done():
            self.failed.set_result(reason)

    # stopping

    async def stop(self) -> None:
        """Cleanly, as far as the node had come: what was acknowledged is on disk, and the marker says so."""
        await self._periodic.stop()
        if self._broker is not None:
            await self._broker.stop()
        if self._membership is not None:
            await self._membership.leave(politely=self._serving and not self.failed.done())
        for listener in self._listeners:
            listener.stop_accepting()
        if self._limits is not None:
            for connection in self._limits.connections():
                connection.close()
        if self._directories is None:
            return
        if self._serving and not self.failed.done():
            await self._close_cleanly(self._directories)
        else:
            self._directories.abandon()

    async def _close_cleanly(self, directories: NodeDirectories) -> None:
        assert self._broker is not None
        assert self._quorum is not None
        assert self._membership is not None
        log_dirs = directories.logs
        partitions = list(self._broker.partitions().values())
        # Requests that were under way when their connections ended may still be writing; no more are let through.
        for partition in partitions:
            partition.withdraw(ErrorCode.not_leader_or_follower)
        await asyncio.gather(*(partition.settled() for partition in partitions))
        offsets = {partition.name: partition.high_watermark for partition in partitions}
        for failure in await asyncio.gather(*(self._executor.run(job) for job in log_dirs.closing_jobs())):
            if failure is not None:
                log_dirs.fail(*failure)
        for failure in await self._executor.run(lambda: log_dirs.checkpoint_high_watermarks(offsets)):
            log_dirs.fail(*failure)
        try:
            await self._quorum.close()
        except OSError as error:
            # No word of a clean stop, then: the next start looks at every log.
            self._metadata_failed(error)
            directories.abandon()
            return
        epoch = self._membership.broker_epoch
        await self._executor.run(lambda: directories.close(epoch))


def _tell_recovery(progress: LoadProgress) -> None:
    """Only of recoveries long enough that somebody may wonder."""
    if progress.bytes_to_scan >= RECOVERY_TOLD_AFTER_BYTES:
        share = 100 * progress.scanned_bytes // max(1, progress.bytes_to_scan)
        logger.info("recovering %s: %d %% of %d bytes", progress.topic_partition, share, progress.bytes_to_scan)
