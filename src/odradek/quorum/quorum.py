"""This node's part in the metadata quorum: its replica of the log, the image, and the controller.

A node that is not a voter has the same parts, but its replica is an observer and its controller is never active.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from odradek.base.background import log_fault, start_task
from odradek.base.ports import Clock, Disk, Executor, Random
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.features import KRAFT_VERSION, LATEST_METADATA_VERSION, default_levels
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import FeatureLevelRecord, MetadataRecord
from odradek.core.metadata.snapshot import BOOTSTRAP_FILE, decode_snapshot
from odradek.core.raft.settings import FETCH_MAX_WAIT_MS, Identity, RaftSettings
from odradek.core.raft.snapshot_policy import SnapshotPolicy
from odradek.core.raft.state_machine import RaftStateMachine
from odradek.core.raft.voter_set import VoterSet
from odradek.core.raft.voters import SUPPORTED_KRAFT_VERSIONS
from odradek.quorum.active_controller import ActiveController
from odradek.quorum.driver import LANE, QuorumDriver
from odradek.quorum.format import voter_endpoint
from odradek.quorum.loader import MetadataLoader, Subscriber
from odradek.quorum.misconfiguration import MisconfigurationLog, NoLeaderWarning
from odradek.quorum.peers import Peers, bootstrap_ids
from odradek.quorum.store import QuorumStore
from odradek.records.batch import CorruptBatch
from odradek.records.control import VoterEndpoint, VoterRegistration
from odradek.records.record import InvalidRecords
from odradek.server.security import UNSECURED_PEER, PeerSecurity
from odradek.storage.log.log_dir_health import LogDirHealth

logger = logging.getLogger(__name__)

HAND_OVER_SECONDS_MAX: Final = 1.0
"""Another node becomes leader after two round trips; without one, waiting longer does not help."""
MAINTENANCE_INTERVAL_MS: Final = 60_000
CAUGHT_UP_POLL_SECONDS: Final = 0.01


class QuorumError(Exception):
    """The quorum cannot start; the message is one line with the reason."""


class Quorum:
    def __init__(
        self,
        config: NodeConfig,
        store: QuorumStore,
        state_machine: RaftStateMachine,
        *,
        cluster_id: str,
        disk: Disk,
        clock: Clock,
        random: Random,
        executor: Executor,
        health: LogDirHealth,
        peer_security: PeerSecurity = UNSECURED_PEER,
    ) -> None:
        """Use `open` instead."""
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
        """Done when this replica has failed because of its disk or log: the node must stop."""
        self.misconfiguration: Final = MisconfigurationLog(
            config.node_id,
            cluster_id,
            (voter.node_id for voter in config.controller_quorum_voters),
            state_machine.directory_id,
        )
        peers = Peers(
            self.misconfiguration,
            client_id=f"raft-client-{config.node_id}",
            listener_name=config.controller_listener_names[0],
            bootstrap=config.controller_quorum_bootstrap_servers,
            request_timeout_seconds=config.controller_quorum_request_timeout_ms / 1000,
            peer_security=peer_security,
        )
        self.driver: Final = QuorumDriver(
            state_machine,
            store,
            peers,
            self.misconfiguration,
            clock=clock,
            executor=executor,
            health=health,
            on_failure=self._fail,
        )
        self.loader: Final = MetadataLoader(store, self._policy, clock=clock, executor=executor, on_failure=self._fail)
        self.controller: Final = ActiveController(
            config,
            cluster_id,
            self.driver,
            self.loader,
            clock=clock,
            random=random,
            executor=executor,
            read_bootstrap=self._read_bootstrap,
            on_failure=self._fail,
        )
        # The loader is first, since the controller depends on its image.
        self.driver.add_listener(self.loader)
        self.driver.add_listener(self.controller)
        self.loader.on_snapshot_due = self._start_maintenance
        self.loader.on_control = self.misconfiguration.on_control
        self.loader.subscribe(self.misconfiguration.on_image)
        self._no_leader_warning: Final = NoLeaderWarning(
            lambda: self.driver.leader_id >= 0, peers.unreachable, has_authorizer=bool(config.authorizer_class_name)
        )
        self.driver.on_leader_change(self._no_leader_warning.on_leader_change)

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
        health: LogDirHealth,
        had_clean_shutdown: bool = False,
        peer_security: PeerSecurity = UNSECURED_PEER,
    ) -> "Quorum":
        """Reads the metadata log. `directory_id` is that of its log dir, `endpoints` are the controller listeners.
        `executor` and `health` are those of the metadata log dir.

        Raises QuorumError, and OSError if the disk fails.
        """
        static_voters = _static_voters(config)

        def read() -> tuple[QuorumStore, RaftStateMachine]:
            store = QuorumStore.open(disk, config, now_ms=clock.wall_ms(), had_clean_shutdown=had_clean_shutdown)
            identity = Identity(
                node_id=config.node_id,
                directory_id=directory_id,
                cluster_id=cluster_id,
                endpoints=tuple(map(voter_endpoint, endpoints)),
                kraft_versions=SUPPORTED_KRAFT_VERSIONS,
                can_become_voter=config.is_controller,
            )
            return store, RaftStateMachine(identity, raft_settings(config), random, store.stored_state(static_voters))

        try:
            store, state_machine = await executor.run(read, lane=LANE)
        except (ValueError, CorruptBatch, InvalidRecords) as error:
            raise QuorumError(f"Cannot read the metadata log in {config.metadata_log_dir}: {error}") from error
        _check_membership(config, state_machine)
        return cls(
            config,
            store,
            state_machine,
            cluster_id=cluster_id,
            disk=disk,
            clock=clock,
            random=random,
            executor=executor,
            health=health,
            peer_security=peer_security,
        )

    @property
    def image(self) -> ClusterImage:
        """The committed metadata that all subscribers have applied."""
        return self.loader.image

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with every committed change, in order. It must not wait for the controller."""
        self.loader.subscribe(subscriber)

    def start(self) -> None:
        self.driver.start()
        self._no_leader_warning.on_leader_change()

    async def wait_until_caught_up(self) -> None:
        """Returns once there is a leader, and everything that is known to be committed then is applied."""
        has_leader: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_leader_change() -> None:
            if self.driver.leader_id >= 0 and not has_leader.done():
                has_leader.set_result(None)

        self.driver.on_leader_change(on_leader_change)
        on_leader_change()
        await has_leader
        await self.loader.wait_until_applied(self.driver.high_watermark - 1)

    async def wait_until_committed_is_applied(self) -> None:
        """Returns once everything is applied that a leader has committed before this replica fetched from it.

        Unlike `wait_until_caught_up`, it never returns with the state of the last snapshot only.
        """
        while not self.driver.has_caught_up:
            await asyncio.sleep(CAUGHT_UP_POLL_SECONDS)
        await self.loader.wait_until_applied(self.driver.high_watermark - 1)

    async def maintain(self) -> None:
        """To be called periodically: writes due snapshots and deletes old ones."""
        self._start_maintenance()
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])

    async def stop(self) -> None:
        """Hands over leadership and closes the log. Raises OSError."""
        await self.driver.stop(HAND_OVER_SECONDS_MAX)
        self._no_leader_warning.stop()
        await self.controller.stop()
        await self.loader.stop()
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])
        if not self.failed.done():
            await self._executor.run(self._store.close, lane=LANE)

    def _fail(self, error: Exception) -> None:
        logger.error("Replica of the metadata log failed: %s", error)
        if not self.failed.done():
            self.failed.set_result(error)

    # Snapshots

    def _start_maintenance(self) -> None:
        if self._maintenance is None and not self.failed.done():
            # Without a snapshot the log only grows, and the next attempt follows.
            self._maintenance = start_task("metadata snapshot", self._maintain(), log_fault)

    async def _maintain(self) -> None:
        now_ms = self._clock.wall_ms()
        store, driver = self._store, self.driver
        try:
            if self._policy.is_due(now_ms):
                image = self.loader.image
                quorum = driver.quorum_at(image.offset + 1)
                self._policy.on_snapshot()
                taken = await self._executor.run(lambda: store.write_snapshot(image, quorum, now_ms))
                if taken is not None:
                    driver.on_snapshot(*taken)
                    logger.info("Metadata snapshot written: offset=%d", image.offset)
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
        # A leader without new data responds before its followers' fetch timeout.
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


def _check_membership(config: NodeConfig, state_machine: RaftStateMachine) -> None:
    """Raises QuorumError if this node would wait forever: the only voter is itself, with another directory."""
    voters = state_machine.quorum.voters
    if [voter.voter_id for voter in voters] == [config.node_id] and not state_machine.is_voter:
        raise QuorumError(
            f"Node {config.node_id} is the only voter, but with another directory ID: its metadata directory was "
            "replaced or formatted again. Restore the original directory."
        )
