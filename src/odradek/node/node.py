"""One node from start to stop: addresses, disks, metadata, partitions, clients, in that order, and back.

`start` returns when clients are served. A node that cannot go on says so through `failed`; its process then ends.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, is_disk_failure
from odradek.base.ids import TopicPartition
from odradek.base.ports import Clock, Disk, Executor, Random
from odradek.broker.broker import Broker
from odradek.broker.cleaning import Cleaning
from odradek.broker.maintenance import Maintenance
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.node.controller_channel import FORWARDING_SECONDS_MAX, ControllerChannel
from odradek.node.controller_node import ControllerNode
from odradek.node.directories import NodeDirectories, advice, failed_metadata
from odradek.node.membership import Membership
from odradek.node.observation import STOPPING, Observation
from odradek.node.unreachable_leaders import UnreachableLeaders
from odradek.observe.segment_leases import SegmentLeases
from odradek.quorum.quorum import MAINTENANCE_INTERVAL_MS, Quorum, QuorumError
from odradek.server.dispatch import ApiDispatcher
from odradek.server.listeners import NodeListeners
from odradek.server.periodic import Periodic
from odradek.server.server import ListenError
from odradek.storage.log.log_dir import LogDirError
from odradek.storage.log.log_dirs import DirFailure, LoadProgress, LogDirs
from odradek.wire.apis import CONTROLLER_APIS, broker_apis

logger = logging.getLogger(__name__)

RECOVERY_TOLD_AFTER_BYTES: Final = 256 << 20
PIECES_OF_WORK_MAX: Final = 200

Job = Callable[[], DirFailure | None]


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
        self._listeners: Final = NodeListeners(config, clock, self._periodic)
        self._directories: NodeDirectories | None = None
        self._quorum: Quorum | None = None
        self._controller_node: ControllerNode | None = None
        self._channels: Final[list[ControllerChannel]] = []
        self._membership: Membership | None = None
        self._broker: Broker | None = None
        self._unreachable_leaders: UnreachableLeaders | None = None
        self._leases: SegmentLeases | None = None
        self._serving = False
        self.failed: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        self._observation: Final = Observation(
            config, self._listeners, self.failed, clock=clock, executor=executor, periodic=self._periodic, random=random
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{one.host}:{one.port}" for one in self._listeners.advertised())

    # starting

    async def start(self) -> None:
        """Raises StartError for what somebody has to put right."""
        try:
            await self._start()
        except (LogDirError, ListenError, QuorumError) as error:
            raise StartError(str(error)) from error
        except KafkaError as error:
            fault = "" if self._quorum is None else self._quorum.misfits.own_fault
            raise StartError(f"the node could not join its cluster: {fault or error}") from error
        except OSError as error:
            raise StartError(f"{error.filename or 'a log dir'}: {advice(error)}") from error

    async def _start(self) -> None:
        config = self._config
        # A port in use is found out before anything on disk is touched.
        await self._listeners.bind()
        await self._observation.start()
        self._directories = directories = NodeDirectories.open(self._disk, config, self._new_id)
        quorum = await self._open_quorum(directories)
        if config.is_controller:
            await self._begin_as_controller(quorum, directories.cluster_id)
        quorum.start()
        if config.is_broker:
            await self._begin_as_broker(quorum, directories)
        else:
            await self._unless_failed(quorum.caught_up())
        self._periodic.every("metadata snapshots", lambda: MAINTENANCE_INTERVAL_MS, quorum.maintain)
        self._listeners.start_periodic_tasks()
        self._serving = True
        self._observation.progress = None

    async def _begin_as_controller(self, quorum: Quorum, cluster_id: str) -> None:
        self._controller_node = node = ControllerNode(
            self._config, quorum, cluster_id=cluster_id, clock=self._clock, executor=self._executor
        )
        node.start(
            self._new_channel(quorum),
            endpoints=self._listeners.advertised_to_quorum(),
            incarnation_id=self._new_id(),
            random=self._random,
        )
        await self._listeners.serve_quorum(ApiDispatcher(CONTROLLER_APIS, node, self._observation.meters))

    async def _begin_as_broker(self, quorum: Quorum, directories: NodeDirectories) -> None:
        membership = await self._register(quorum, directories)
        self._unreachable_leaders = UnreachableLeaders(
            self._config.broker_disconnect_grace_ms / 1000, image=lambda: broker.image, clock=self._clock
        )
        self._broker = broker = Broker(
            self._config,
            cluster_id=directories.cluster_id,
            clock=self._clock,
            random=self._random,
            executor=self._executor,
            controller=self._new_channel(quorum),
            log_dirs=directories.logs,
            unreachable_leaders=self._unreachable_leaders,
            on_log_dir_failure=self._log_dir_failed,
        )
        self._observation.broker = broker
        image = quorum.image
        await self._load_logs(directories.logs, broker, image)
        await quorum.loader.join(broker.on_image, since=image)
        # Clients are let in last: whom they find here leads what it is to lead.
        await self._unless_failed(membership.unfence())
        await self._serve(broker)
        Maintenance(broker, self._periodic).begin()
        self._periodic.once(Cleaning(broker, self._disk).run())
        if self._config.http_address is not None:
            self._leases = SegmentLeases(broker, self._disk, self._config.segment_lease_credentials_file)
            await self._leases.start(self._observation.endpoint, self._periodic)

    def _new_channel(self, quorum: Quorum, retry_seconds_max: float = FORWARDING_SECONDS_MAX) -> ControllerChannel:
        channel = ControllerChannel(
            self._config,
            quorum.driver,
            quorum.controller,
            clock=self._clock,
            local_node=self._controller_node,
            retry_seconds_max=retry_seconds_max,
            wait_until_applied=quorum.loader.wait_until_applied,
        )
        self._channels.append(channel)
        return channel

    async def _open_quorum(self, directories: NodeDirectories) -> Quorum:
        config = self._config
        try:
            self._quorum = quorum = await Quorum.open(
                config,
                cluster_id=directories.cluster_id,
                directory_id=directories.metadata_directory_id,
                endpoints=self._listeners.advertised_to_quorum(),
                disk=self._disk,
                clock=self._clock,
                random=self._random,
                executor=self._executor,
                had_clean_shutdown=directories.metadata_had_clean_shutdown,
            )
        except OSError as error:
            raise StartError(failed_metadata(config.metadata_log_dir, error)) from error
        self._observation.take_quorum(quorum, directories.cluster_id)
        quorum.failed.add_done_callback(lambda failed: self._metadata_failed(failed.result()))
        return quorum

    async def _register(self, quorum: Quorum, directories: NodeDirectories) -> Membership:
        """Returns once the image is as recent as the registration."""
        # Heartbeats have a connection of their own: they do not wait behind what clients want.
        channel = self._new_channel(quorum, self._config.broker_session_timeout_ms / 2000)
        self._membership = membership = Membership(
            self._config,
            channel,
            cluster_id=directories.cluster_id,
            incarnation_id=self._new_id(),
            metadata_offset=lambda: quorum.image.offset,
            clock=self._clock,
            random=self._random,
        )
        membership.failed.add_done_callback(lambda failed: self._fail(failed.result()))
        channel.on_disconnect(membership.beat_now)
        quorum.subscribe(membership.on_image)
        logs = directories.logs
        await self._unless_failed(
            membership.register(self._listeners.advertised(), logs.directory_ids.values(), logs.previous_broker_epoch)
        )
        await self._unless_failed(quorum.loader.wait_until_applied(membership.broker_epoch))
        return membership

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        """What waits for the quorum does not wait for one that cannot go on."""
        task = asyncio.ensure_future(work)
        await asyncio.wait((task, self.failed), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            raise StartError(self.failed.result())
        task.result()

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
        await broker.apply_all()

    async def _load(self, jobs: Sequence[Job], at_once: int) -> list[DirFailure | None]:
        waiting = iter(_few_at_a_time(jobs))
        results: list[DirFailure | None] = []

        async def one_after_the_other() -> None:
            for work in waiting:
                results.extend(await self._executor.run(work))

        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
        return results

    async def _serve(self, broker: Broker) -> None:
        self._listeners.on_config(broker.config)
        broker.on_config(self._listeners.on_config)
        apis = broker_apis(two_phase_commit=bool(broker.static_config.effective("transaction.two.phase.commit.enable")))
        await self._listeners.serve_clients(ApiDispatcher(apis, broker, self._observation.meters))

    def _new_id(self) -> UUID:
        while True:
            candidate = UUID(bytes=self._random.randbytes(16), version=4)
            # Kafka's tools read an id that begins with a dash as an option.
            if candidate.bytes[0] >> 2 != 62:
                return candidate

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

    def _metadata_failed(self, error: Exception) -> None:
        if isinstance(error, OSError):
            self._fail(failed_metadata(self._config.metadata_log_dir, error))
        else:
            self._fail(f"the metadata log in {self._config.metadata_log_dir} cannot go on: {error}")

    def _fail(self, reason: str) -> None:
        logger.critical("%s", reason)
        if not self.failed.done():
            self.failed.set_result(reason)

    # stopping

    async def stop(self) -> None:
        """Cleanly, as far as the node had come: what was acknowledged is on disk, and the marker says so."""
        self._observation.progress = STOPPING
        await self._periodic.stop()
        if self._leases is not None:
            await self._leases.stop()
        if self._membership is not None:
            await self._membership.leave(politely=self._serving and not self.failed.done())
        # Last: until others have taken over, they count on this broker's replicas.
        if self._broker is not None:
            await self._broker.stop()
        if self._unreachable_leaders is not None:
            await self._unreachable_leaders.stop()
        self._listeners.stop_clients()
        for channel in self._channels:
            channel.close()
        is_clean = self._serving and not self.failed.done()
        if is_clean and self._broker is not None:
            await self._close_logs(self._broker)
        if self._controller_node is not None:
            self._controller_node.stop()
        if self._quorum is not None:
            is_clean = await self._leave_quorum(self._quorum) and is_clean
        self._listeners.stop()
        await self._observation.stop()
        if self._directories is not None:
            await self._close_directories(self._directories, is_clean=is_clean)

    async def _close_logs(self, broker: Broker) -> None:
        log_dirs = broker.log_dirs
        partitions = list(broker.partitions().values())
        # Requests that were under way when their connections ended may still be writing; no more are let through.
        for partition in partitions:
            partition.withdraw(ErrorCode.not_leader_or_follower)
        await asyncio.gather(*(partition.wait_for_idle() for partition in partitions))
        offsets = {partition.name: partition.high_watermark for partition in partitions}
        closing = (self._executor.run(work) for work in _few_at_a_time(log_dirs.closing_jobs()))
        for failure in chain.from_iterable(await asyncio.gather(*closing)):
            if failure is not None:
                log_dirs.fail(*failure)
        for failure in await self._executor.run(lambda: log_dirs.checkpoint_high_watermarks(offsets)):
            log_dirs.fail(*failure)

    async def _leave_quorum(self, quorum: Quorum) -> bool:
        try:
            await quorum.stop()
        except OSError as error:
            # No word of a clean stop, then: the next start looks at every log.
            self._metadata_failed(error)
        return not self.failed.done()

    async def _close_directories(self, directories: NodeDirectories, *, is_clean: bool) -> None:
        if not is_clean:
            directories.abandon()
            return
        epoch = -1 if self._membership is None else self._membership.broker_epoch
        await self._executor.run(lambda: directories.close(epoch))


def _tell_recovery(progress: LoadProgress) -> None:
    """Only of recoveries long enough that somebody may wonder."""
    if progress.bytes_to_scan >= RECOVERY_TOLD_AFTER_BYTES:
        share = 100 * progress.scanned_bytes // max(1, progress.bytes_to_scan)
        logger.info("recovering %s: %d %% of %d bytes", progress.topic_partition, share, progress.bytes_to_scan)


def _few_at_a_time(jobs: Sequence[Job]) -> list[Callable[[], list[DirFailure | None]]]:
    """Thousands of them in pieces: to hand one to a thread costs as much as a partition that is opened or closed."""
    size = len(jobs) // PIECES_OF_WORK_MAX + 1
    return [partial(_work_off, jobs[start : start + size]) for start in range(0, len(jobs), size)]


def _work_off(jobs: Sequence[Job]) -> list[DirFailure | None]:
    return [job() for job in jobs]
