"""This node's part in the quorum, whole: its replica of the log, the image that follows it, and the controller.

What a node without a vote has of it is the same, but that its replica only observes and its controller never wakes.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from odradek.base.ports import Clock, Disk, Executor, Random
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.features import KRAFT_VERSION, LATEST_METADATA_VERSION, default_levels
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import FeatureLevelRecord, MetadataRecord
from odradek.core.metadata.snapshot import BOOTSTRAP_FILE, decode_snapshot
from odradek.core.raft.machine import RaftMachine
from odradek.core.raft.settings import FETCH_MAX_WAIT_MS, Identity, RaftSettings
from odradek.core.raft.snapshot_policy import SnapshotPolicy
from odradek.core.raft.voter_set import VoterSet
from odradek.core.raft.voters import SUPPORTED_KRAFT_VERSIONS
from odradek.quorum.active_controller import ActiveController
from odradek.quorum.driver import LANE, QuorumDriver
from odradek.quorum.format import voter_endpoint
from odradek.quorum.loader import MetadataLoader, Subscriber
from odradek.quorum.misfits import LeaderlessWatch, Misfits
from odradek.quorum.peers import Peers, bootstrap_ids
from odradek.quorum.store import QuorumStore
from odradek.records.batch import CorruptBatch
from odradek.records.control import VoterEndpoint, VoterRegistration
from odradek.records.record import InvalidRecords

logger = logging.getLogger(__name__)

HAND_OVER_SECONDS_MAX: Final = 1.0
"""Somebody else leads after two exchanges; where nobody is left who could, waiting changes nothing."""
MAINTENANCE_INTERVAL_MS: Final = 60_000


class QuorumError(Exception):
    """The quorum cannot start; the message is one line that says why."""


class Quorum:
    def __init__(
        self,
        config: NodeConfig,
        store: QuorumStore,
        machine: RaftMachine,
        *,
        cluster_id: str,
        disk: Disk,
        clock: Clock,
        random: Random,
        executor: Executor,
    ) -> None:
        """Not for callers: see `open`."""
        self._config: Final = config
        self._store: Final = store
        self._disk: Final = disk
        self._clock: Final = clock
        self._executor: Final = executor
        self._policy: Final = SnapshotPolicy(
            max_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        )
        self._maintenance: asyncio.Task[None] | None = None
        self.failed: Final[asyncio.Future[Exception]] = asyncio.get_running_loop().create_future()
        """Done once this replica cannot go on, for its disk's sake or its log's: nor can the node."""
        self.misfits: Final = Misfits(
            config.node_id,
            cluster_id,
            (voter.node_id for voter in config.controller_quorum_voters),
            machine.directory_id,
        )
        peers = Peers(
            self.misfits,
            client_id=f"raft-client-{config.node_id}",
            listener_name=config.controller_listener_names[0],
            bootstrap=config.controller_quorum_bootstrap_servers,
            request_timeout_seconds=config.controller_quorum_request_timeout_ms / 1000,
        )
        self.driver: Final = QuorumDriver(
            machine, store, peers, self.misfits, clock=clock, executor=executor, failed=self._fail
        )
        self.loader: Final = MetadataLoader(store, self._policy, clock=clock, executor=executor, failed=self._fail)
        self.controller: Final = ActiveController(
            config,
            cluster_id,
            self.driver,
            self.loader,
            clock=clock,
            random=random,
            executor=executor,
            read_bootstrap=self._read_bootstrap,
        )
        # In this order: the controller counts on the image.
        self.driver.follow(self.loader)
        self.driver.follow(self.controller)
        self.loader.on_snapshot_due = self._begin_maintenance
        self.loader.on_control = self.misfits.committed
        self.loader.subscribe(self.misfits.on_image)
        self._watch: Final = LeaderlessWatch(lambda: self.leader_id >= 0, peers.not_reached)
        self.driver.on_leader_change(self._watch.look)

    @classmethod
    async def open(
        cls,
        config: NodeConfig,
        *,
        cluster_id: str,
        directory_id: UUID,
        endpoints: Sequence[Listener],
        disk: Disk,
        clock: Clock,
        random: Random,
        executor: Executor,
        had_clean_shutdown: bool = False,
    ) -> "Quorum":
        """Reads what is on disk. `directory_id` is that of the metadata log's dir, `endpoints` are where this node is
        reached as a controller. Raises QuorumError, and OSError when the disk fails.
        """
        static_voters = _static_voters(config)

        def read() -> tuple[QuorumStore, RaftMachine]:
            store = QuorumStore.open(disk, config, now_ms=clock.wall_ms(), had_clean_shutdown=had_clean_shutdown)
            identity = Identity(
                node_id=config.node_id,
                directory_id=directory_id,
                cluster_id=cluster_id,
                endpoints=tuple(map(voter_endpoint, endpoints)),
                kraft_versions=SUPPORTED_KRAFT_VERSIONS,
                can_become_voter=config.is_controller,
            )
            return store, RaftMachine(identity, raft_settings(config), random, store.found(static_voters))

        try:
            store, machine = await executor.run(read, lane=LANE)
        except (ValueError, CorruptBatch, InvalidRecords) as error:
            raise QuorumError(f"the metadata log in {config.metadata_log_dir} cannot be read: {error}") from error
        _check_membership(config, machine)
        return cls(
            config,
            store,
            machine,
            cluster_id=cluster_id,
            disk=disk,
            clock=clock,
            random=random,
            executor=executor,
        )

    @property
    def image(self) -> ClusterImage:
        """What is committed and taken up by the subscribers."""
        return self.loader.image

    @property
    def leader_id(self) -> int:
        leader_id = self.driver.machine.leader_id
        return -1 if leader_id is None else leader_id

    def subscribe(self, subscriber: Subscriber) -> None:
        """Called with every committed change, in order, one at a time. It must not wait for a controller's answer."""
        self.loader.subscribe(subscriber)

    def start(self) -> None:
        self.driver.start()
        self._watch.look()

    async def caught_up(self) -> None:
        """Returns once somebody leads, and everything that is known to be committed then is taken up."""
        led: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look() -> None:
            if self.leader_id >= 0 and not led.done():
                led.set_result(None)

        self.driver.on_leader_change(look)
        look()
        await led
        await self.loader.wait_until_applied(self.driver.high_watermark - 1)

    async def answer(self, api_key: int, version: int, request: Any, listener_name: str) -> Any:
        return await self.driver.answer(api_key, version, request, listener_name)

    async def maintain(self) -> None:
        """To be called now and then: snapshots that time has made due, and the removal of old ones."""
        self._begin_maintenance()
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])

    async def stop(self) -> None:
        """Hands leadership over and closes the log. Raises OSError."""
        await self.driver.stop(HAND_OVER_SECONDS_MAX)
        self._watch.stop()
        await self.controller.stop()
        await self.loader.stop()
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])
        if not self.failed.done():
            await self._executor.run(self._store.close, lane=LANE)

    def _fail(self, error: Exception) -> None:
        logger.error("the metadata log cannot go on: %s", error)
        if not self.failed.done():
            self.failed.set_result(error)

    # Snapshots

    def _begin_maintenance(self) -> None:
        if self._maintenance is None and not self.failed.done():
            self._maintenance = asyncio.ensure_future(self._maintain())

    async def _maintain(self) -> None:
        now_ms = self._clock.wall_ms()
        store, driver = self._store, self.driver
        try:
            if self._policy.is_due(now_ms):
                image = self.loader.image
                quorum = driver.quorum_at(image.offset + 1)
                self._policy.taken()
                taken = await self._executor.run(lambda: store.write_snapshot(image, quorum, now_ms))
                if taken is not None:
                    driver.snapshot_taken(*taken)
                    logger.info("metadata snapshot at offset %d", image.offset)
            await driver.clean(self._config, now_ms)
        except OSError as error:
            self._fail(error)
        finally:
            self._maintenance = None

    def _read_bootstrap(self) -> Sequence[MetadataRecord]:
        path = f"{self._config.metadata_log_dir}/{BOOTSTRAP_FILE}"
        if self._disk.exists(path):
            return decode_snapshot(self._disk.read_bytes(path)).records
        return [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in default_levels(LATEST_METADATA_VERSION).items()
            if name != KRAFT_VERSION
        ]


def raft_settings(config: NodeConfig) -> RaftSettings:
    return RaftSettings(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        # A leader that has nothing to tell says so before its followers lose patience.
        fetch_max_wait_ms=min(FETCH_MAX_WAIT_MS, config.controller_quorum_fetch_timeout_ms // 2),
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=config.controller_quorum_auto_join_enable,
        bootstrap_ids=bootstrap_ids(config.controller_quorum_bootstrap_servers),
        fast_detection=config.broker_disconnect_grace_ms > 0,
    )


def _static_voters(config: NodeConfig) -> VoterSet:
    name = config.controller_listener_names[0]
    return VoterSet.of(
        VoterRegistration(
            voter_id=voter.node_id,
            voter_directory_id=None,
            endpoints=(VoterEndpoint(name=name, host=voter.host, port=voter.port),),
            kraft_version_feature=SUPPORTED_KRAFT_VERSIONS,
        )
        for voter in config.controller_quorum_voters
    )


def _check_membership(config: NodeConfig, machine: RaftMachine) -> None:
    """Raises QuorumError where this node would wait for ever: the only voter is itself, with another directory."""
    voters = machine.quorum.voters
    if [voter.voter_id for voter in voters] == [config.node_id] and not machine.is_voter:
        raise QuorumError(
            f"node {config.node_id} is a voter with another directory than this one: the metadata directory was "
            "replaced or formatted again"
        )
