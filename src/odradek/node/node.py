"""One node from start to stop: listeners, log dirs, metadata, partitions, clients, in that order, and back.

`run` does all of it. `start` returns when the node serves clients. `failed` reports that the node must stop; its
process then exits.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar
from uuid import UUID

from odradek.base.background import Fault
from odradek.base.errors import ErrorCode, KafkaError, is_disk_failure
from odradek.base.ids import TopicPartition
from odradek.base.ports import Clock, Disk, Random, Threads, Workers
from odradek.broker.broker import Broker
from odradek.broker.cleaning import Cleaning
from odradek.broker.maintenance import Maintenance
from odradek.config.node_config import NodeConfig
from odradek.config.sasl_config import SASL_PROTOCOLS
from odradek.core.metadata.image import ClusterImage
from odradek.node.audit import NodeAudit
from odradek.node.broker_lifecycle import BrokerLifecycle
from odradek.node.controller_channel import FORWARDING_SECONDS_MAX, ControllerChannel
from odradek.node.controller_node import ControllerNode
from odradek.node.directories import NodeDirectories, describe_last_failure, describe_metadata_failure, repair_hint
from odradek.node.fault_handler import FaultHandler
from odradek.node.http_passwords import password_check
from odradek.node.log_dir_watch import LogDirWatch
from odradek.node.observation import STOPPING, Observation
from odradek.node.security import NodeSecurity, SecurityError
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

RECOVERY_LOGGED_FROM_BYTES: Final = 256 << 20
RECOVERY_LOGGED_EVERY_BYTES: Final = 16 << 20
CHUNKS_MAX: Final = 200

T = TypeVar("T")
Job = Callable[[], DirFailure | None]


class StartError(Exception):
    """The node cannot start; the message is one line that states what to do."""


class _StartCancelled(Exception):
    """Ends the recovery of a log in its thread: the node stops before it has started."""


class Node:
    def __init__(
        self, config: NodeConfig, *, disk: Disk, clock: Clock, random: Random, executor: Threads, workers: Workers
    ) -> None:
        self._config: Final = config
        self._disk: Final = disk
        self._clock: Final = clock
        self._random: Final = random
        self._executor: Final = executor
        self.log_dir_watch: Final = LogDirWatch(
            config, threads=executor, disk=disk, clock=clock, on_hang=self._on_hung_log_dir
        )
        self._workers: Final = workers
        self._periodic: Final = Periodic()
        self._security: Final = NodeSecurity(config, clock=clock, random=random, executor=executor)
        self._audit: Final = NodeAudit(config, clock, executor)
        if self._audit.trail is not None:
            self._security.on_failure = self._audit.on_authentication_failure
        self._listeners: Final = NodeListeners(
            config, clock, executor, self._periodic, security_of=self._security.listener_security
        )
        self._directories: NodeDirectories | None = None
        self._quorum: Quorum | None = None
        self._controller_node: ControllerNode | None = None
        self._channels: Final[list[ControllerChannel]] = []
        self._lifecycle: BrokerLifecycle | None = None
        self._broker: Broker | None = None
        self._unreachable_leaders: UnreachableLeaders | None = None
        self._leases: SegmentLeases | None = None
        self._start_in_threads: asyncio.Task[Any] | None = None
        """What the start runs in threads, which may outlast its cancellation."""
        self._is_start_cancelled = False
        # How much of each log was scanned when that was last logged. Each key belongs to one thread.
        self._logged_recovery_bytes: Final[dict[TopicPartition, int]] = {}
        self._serving = False
        self.failed: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        self._observation: Final = Observation(
            config,
            self._listeners,
            self.failed,
            clock=clock,
            executor=executor,
            periodic=self._periodic,
            random=random,
            certificate_expiries_ms=self._security.expiries_ms,
        )
        if self._audit.log is not None:
            self._observation.set_audit_log(self._audit.log, self._audit.on_authentication_failure)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{one.host}:{one.port}" for one in self._listeners.advertised_listeners())

    @property
    def applied_offset(self) -> int:
        """The offset of the metadata that all parts of this node have applied; -1: none."""
        return -1 if self._quorum is None else self._quorum.image.offset

    async def run(self, stop_requested: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Serves until a request to stop, also while the node starts, or until the node fails. Raises StartError."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(FaultHandler(self._fail).on_loop_error)
        stopping = asyncio.ensure_future(stop_requested.wait())
        starting = asyncio.ensure_future(self.start())
        try:
            await asyncio.wait((starting, stopping, self.failed), return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                raise StartError(self.failed.result())
            if starting.done():
                starting.result()
                on_ready()
                await asyncio.wait((stopping, self.failed), return_when=asyncio.FIRST_COMPLETED)
            else:
                logger.info("Stopping before the start is complete")
        finally:
            stopping.cancel()
            await _cancel(starting)
            await self.stop()
            loop.set_exception_handler(None)

    # Start

    async def start(self) -> None:
        """Raises StartError. `run` cancels it if the node fails; `stop` then waits for the threads of the start."""
        try:
            await self._start()
        except asyncio.CancelledError:
            self._is_start_cancelled = True
            raise
        except (LogDirError, ListenError, QuorumError, SecurityError) as error:
            raise StartError(str(error)) from error
        except KafkaError as error:
            problem = "" if self._quorum is None else self._quorum.misconfiguration.own_problem
            raise StartError(f"The node cannot join its cluster: {problem or error}") from error
        except OSError as error:
            raise StartError(f"{error.filename or 'A log dir'}: {repair_hint(error)}") from error

    async def _start(self) -> None:
        config = self._config
        self.log_dir_watch.start()
        await self._security.load()
        await self._audit.start()
        # Listeners first: a port in use must fail before anything on disk changes.
        await self._listeners.bind()
        await self._observation.start(self._security.http())
        await self._security.sasl.start(self._periodic)
        if any(one.security_protocol in SASL_PROTOCOLS for one in config.listeners):
            self._observation.endpoint.security.authenticate = password_check(self._security.sasl.scram)
        self._directories = directories = NodeDirectories.open(self._disk, config, self._new_id)
        quorum = await self._open_quorum(directories)
        if config.is_controller:
            await self._start_controller(quorum, directories.cluster_id)
        quorum.start()
        if config.is_broker:
            await self._start_broker(quorum, directories)
        else:
            await quorum.wait_until_caught_up()
        self._periodic.every("metadata snapshots", lambda: MAINTENANCE_INTERVAL_MS, quorum.maintain)
        self._listeners.start_periodic_tasks()
        self._security.start_periodic_tasks(self._periodic)
        self._serving = True
        self._observation.progress = None

    async def _start_controller(self, quorum: Quorum, cluster_id: str) -> None:
        self._controller_node = node = ControllerNode(
            self._config,
            quorum,
            cluster_id=cluster_id,
            clock=self._clock,
            executor=self._executor,
            trail=self._audit.trail,
        )
        self._observation.add_authorizer("controller", node.authorizer)
        self._observation.quotas.controller = node.client_quotas
        node.start(
            self._new_channel(quorum),
            endpoints=self._listeners.advertised_controller_listeners(),
            incarnation_id=self._new_id(),
            random=self._random,
        )
        if not self._config.is_broker:
            self._observation.endpoint.security.access_of = node.access_of
        await self._listeners.serve_quorum(ApiDispatcher(CONTROLLER_APIS, node, self._observation.meters))

    async def _start_broker(self, quorum: Quorum, directories: NodeDirectories) -> None:
        lifecycle = await self._register(quorum, directories)
        self._unreachable_leaders = UnreachableLeaders(
            self._config.broker_disconnect_grace_ms / 1000,
            image=lambda: broker.image,
            clock=self._clock,
            peer_security=self._security.inter_broker,
        )
        self._broker = broker = Broker(
            self._config,
            cluster_id=directories.cluster_id,
            clock=self._clock,
            random=self._random,
            executor=self._executor,
            workers=self._workers,
            controller=self._new_channel(quorum),
            log_dirs=directories.logs,
            threads_of=self.log_dir_watch.threads_of,
            unreachable_leaders=self._unreachable_leaders,
            on_log_dir_failure=self._on_log_dir_failure,
            peer_security=self._security.inter_broker,
            check_security=self._security.check,
            trail=self._audit.trail,
        )
        self._observation.broker = broker
        self._observation.add_authorizer("broker", broker.authorizer)
        self._observation.quotas.broker = broker.client_quotas
        image = quorum.image
        await self._load_logs(directories.logs, broker, image)
        self._observation.endpoint.security.access_of = broker.access_of
        await quorum.loader.join(broker.on_image, since=image)
        # Clients connect last, when this broker leads its partitions.
        await lifecycle.unfence()
        await self._serve(broker)
        Maintenance(broker, self._periodic).begin()
        self._periodic.once("log cleaner", Cleaning(broker, self._disk).run())
        if self._config.http_address is not None:
            self._leases = SegmentLeases(broker, self._disk)
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
            peer_security=self._security.to_controllers,
        )
        self._channels.append(channel)
        return channel

    async def _open_quorum(self, directories: NodeDirectories) -> Quorum:
        config = self._config
        threads = self.log_dir_watch.threads_of(config.metadata_log_dir)
        try:
            self._quorum = quorum = await self._run_in_threads(
                Quorum.open(
                    config,
                    cluster_id=directories.cluster_id,
                    directory_id=directories.metadata_directory_id,
                    endpoints=self._listeners.advertised_controller_listeners(),
                    disk=self._disk,
                    clock=self._clock,
                    random=self._random,
                    executor=threads,
                    health=threads.health,
                    had_clean_shutdown=directories.metadata_had_clean_shutdown,
                    peer_security=self._security.to_controllers,
                )
            )
        except OSError as error:
            raise StartError(describe_metadata_failure(config.metadata_log_dir, error)) from error
        self._observation.set_quorum(quorum, directories.cluster_id)
        self._security.sasl.use_image(lambda: quorum.image)
        self._listeners.set_client_quotas(quorum.image)
        quorum.subscribe(self._listeners.on_image)
        quorum.failed.add_done_callback(lambda failed: self._on_metadata_failure(failed.result()))
        return quorum

    async def _register(self, quorum: Quorum, directories: NodeDirectories) -> BrokerLifecycle:
        """Returns once this node has applied its own registration."""
        # Heartbeats have their own connection, so that they do not wait for requests of clients.
        channel = self._new_channel(quorum, self._config.broker_session_timeout_ms / 2000)
        self._lifecycle = lifecycle = BrokerLifecycle(
            self._config,
            channel,
            cluster_id=directories.cluster_id,
            incarnation_id=self._new_id(),
            metadata_offset=lambda: quorum.image.offset,
            clock=self._clock,
            random=self._random,
        )
        lifecycle.failed.add_done_callback(lambda failed: self._fail(failed.result()))
        channel.on_disconnect(lifecycle.heartbeat_now)
        quorum.subscribe(lifecycle.on_image)
        logs = directories.logs
        await lifecycle.register(
            self._listeners.advertised_listeners(), logs.directory_ids.values(), logs.previous_broker_epoch
        )
        await quorum.loader.wait_until_applied(lifecycle.broker_epoch)
        return lifecycle

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
            progress=self._on_recovery_progress,
        )
        at_once = self._config.num_recovery_threads_per_data_dir * len(log_dirs.online)
        failures = await self._run_in_threads(self._load(jobs, at_once))
        failures += await self._run_in_threads(self._executor.run(log_dirs.finish_loading))
        for failure in failures:
            if failure is not None and not is_disk_failure(failure.error):
                raise StartError(
                    f"{failure.directory}: {failure.error.strerror}. Raise the limit of open files (ulimit -n 100000)."
                )
            if failure is not None:
                self._on_log_dir_failure(*failure)
        await broker.apply_all()

    async def _load(self, jobs: Sequence[Job], at_once: int) -> list[DirFailure | None]:
        """Returns or raises once no thread runs a job any more."""
        waiting = iter(_chunk_jobs([partial(self._run_unless_cancelled, job) for job in jobs]))
        results: list[DirFailure | None] = []

        async def run_chunks() -> None:
            for work in waiting:
                results.extend(await self._executor.run(work))

        for ended in await asyncio.gather(*(run_chunks() for _ in range(at_once)), return_exceptions=True):
            if ended is not None:
                raise ended
        return results

    def _run_unless_cancelled(self, job: Job) -> DirFailure | None:
        if self._is_start_cancelled:
            raise _StartCancelled
        return job()

    def _on_recovery_progress(self, progress: LoadProgress) -> None:
        """Called in the thread that recovers the log. Its next recovery starts again, as after a crash."""
        if self._is_start_cancelled:
            raise _StartCancelled
        logged_bytes = self._logged_recovery_bytes.get(progress.topic_partition, 0)
        if progress.scanned_bytes - logged_bytes >= RECOVERY_LOGGED_EVERY_BYTES:
            self._logged_recovery_bytes[progress.topic_partition] = progress.scanned_bytes
            _log_recovery(progress)

    async def _run_in_threads(self, work: Coroutine[Any, Any, T]) -> T:
        """Threads cannot be cancelled, and must not write to the log dirs after `stop` has unlocked them."""
        self._start_in_threads = task = asyncio.ensure_future(work)
        return await asyncio.shield(task)

    async def _serve(self, broker: Broker) -> None:
        self._listeners.on_config(broker.config)
        broker.on_config(self._listeners.on_config)
        self._security.on_config(broker.config, self._periodic)
        broker.on_config(lambda config: self._security.on_config(config, self._periodic))
        apis = broker_apis(two_phase_commit=bool(broker.static_config.effective("transaction.two.phase.commit.enable")))
        await self._listeners.serve_clients(ApiDispatcher(apis, broker, self._observation.meters))

    def _new_id(self) -> UUID:
        while True:
            candidate = UUID(bytes=self._random.randbytes(16), version=4)
            # Kafka's tools would read an ID that starts with a dash as an option.
            if candidate.bytes[0] >> 2 != 62:
                return candidate

    # Failure

    def _on_log_dir_failure(self, directory: str, error: OSError) -> None:
        assert self._directories is not None
        log_dirs = self._directories.logs
        if directory not in log_dirs.online:
            return
        directory_id = log_dirs.directory_ids.get(directory)
        logger.error("Log dir failed and is offline: dir=%s, reason=%s", directory, error)
        log_dirs.fail(directory, error, is_hung=self.log_dir_watch.threads_of(directory).health.is_hung)
        if directory == self._config.metadata_log_dir:
            self._on_metadata_failure(error)
        elif not log_dirs.online:
            self._fail(describe_last_failure(directory, error))
        elif self._lifecycle is not None and directory_id is not None:
            self._lifecycle.report_offline_dirs([directory_id])

    def describe_hang(self, directory: str) -> str:
        """For a log dir that the node cannot do without."""
        error = _no_response(directory)
        if directory == self._config.metadata_log_dir:
            return describe_metadata_failure(directory, error)
        return describe_last_failure(directory, error)

    def _on_hung_log_dir(self, directory: str) -> None:
        error = _no_response(directory)
        self._executor.abandon(directory)
        self.log_dir_watch.threads_of(directory).fail(error)
        if directory == self._config.metadata_log_dir:
            self._on_metadata_failure(error)
        if self._broker is not None:
            self._broker.fail_log_dir(directory, error)

    def _on_metadata_failure(self, error: Exception) -> None:
        if isinstance(error, OSError):
            self._fail(describe_metadata_failure(self._config.metadata_log_dir, error))
        elif isinstance(error, Fault):
            self._fail(str(error))
        else:
            self._fail(f"The metadata log in {self._config.metadata_log_dir} failed: {error}")

    def _fail(self, reason: str) -> None:
        logger.critical("%s", reason)
        if not self.failed.done():
            self.failed.set_result(reason)

    # Stop

    async def stop(self) -> None:
        """Stops what has started. After a clean stop, acknowledged records and a marker file are on disk."""
        self._observation.progress = STOPPING
        await self._periodic.stop()
        if self._leases is not None:
            await self._leases.stop()
        if self._lifecycle is not None:
            await self._lifecycle.stop(controlled=self._serving and not self.failed.done())
        # After the shutdown: until then, other brokers depend on this broker's replicas.
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
        await self._audit.stop()
        if self._start_in_threads is not None:
            await asyncio.wait((self._start_in_threads,))
            # A cancelled start has no other reader of its error.
            self._start_in_threads.exception()
        if self._directories is not None:
            await self._close_directories(self._directories, is_clean=is_clean)
        self.log_dir_watch.stop()

    async def _close_logs(self, broker: Broker) -> None:
        log_dirs = broker.log_dirs
        partitions = list(broker.partitions().values())
        # Requests of closed connections may still be writing; new ones are rejected.
        for partition in partitions:
            partition.withdraw(ErrorCode.not_leader_or_follower)
        await asyncio.gather(*(partition.wait_for_idle() for partition in partitions))
        offsets = {partition.name: partition.high_watermark for partition in partitions}
        await asyncio.gather(
            *(self._close_logs_in(directory, log_dirs, offsets) for directory in list(log_dirs.online))
        )

    async def _close_logs_in(self, directory: str, log_dirs: LogDirs, offsets: Mapping[TopicPartition, int]) -> None:
        """In threads of the log dir: if its disk hangs, the node must stop without it."""
        threads, log_dir = self.log_dir_watch.threads_of(directory), log_dirs.online[directory]
        try:
            closing = (threads.run(work) for work in _chunk_jobs(log_dirs.closing_jobs(directory)))
            for failure in chain.from_iterable(await asyncio.gather(*closing)):
                if failure is not None:
                    raise failure.error
            await threads.run(partial(log_dir.checkpoint_high_watermarks, offsets))
        except OSError as error:
            log_dirs.fail(directory, error, is_hung=threads.health.is_hung)

    async def _leave_quorum(self, quorum: Quorum) -> bool:
        try:
            await quorum.stop()
        except OSError as error:
            # Without the marker of a clean shutdown, the next start recovers every log.
            self._on_metadata_failure(error)
        return not self.failed.done()

    async def _close_directories(self, directories: NodeDirectories, *, is_clean: bool) -> None:
        if not is_clean:
            directories.abandon()
            return
        epoch = -1 if self._lifecycle is None else self._lifecycle.broker_epoch
        await self._executor.run(lambda: directories.close(epoch))


def _no_response(directory: str) -> OSError:
    return OSError(errno.ETIMEDOUT, "The disk does not respond", directory)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        # It may have failed at the same moment; a node that stops need not start.
        task.exception()


def _log_recovery(progress: LoadProgress) -> None:
    """Logs only long recoveries."""
    if progress.bytes_to_scan >= RECOVERY_LOGGED_FROM_BYTES:
        share = 100 * progress.scanned_bytes // max(1, progress.bytes_to_scan)
        logger.info(
            "Recovering log: partition=%s, percent=%d, bytes=%d",
            progress.topic_partition,
            share,
            progress.bytes_to_scan,
        )


def _chunk_jobs(jobs: Sequence[Job]) -> list[Callable[[], list[DirFailure | None]]]:
    """A thread gets several jobs at once: handing over one job costs as much as opening or closing a partition."""
    size = len(jobs) // CHUNKS_MAX + 1
    return [partial(_run_all, jobs[start : start + size]) for start in range(0, len(jobs), size)]


def _run_all(jobs: Sequence[Job]) -> list[DirFailure | None]:
    return [job() for job in jobs]
