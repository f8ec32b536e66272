"""The controller side of a node: the `ControllerNodePort` of its API modules, and the controller's background work.

The quorum decides whether this node's controller is the active one; the background work starts and stops with that.
"""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from odradek.base.background import start_task
from odradek.base.errors import KafkaError
from odradek.base.ports import Clock, ControllerPort, Executor, Random
from odradek.base.principal import Principal
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import DeadProcess, Registration
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.node.controller_registration import OwnRegistration
from odradek.node.controller_tasks import ControllerTasks
from odradek.node.dead_brokers import DeadBrokers
from odradek.node.reached_brokers import ReachedBrokers
from odradek.node.takeovers import Takeovers
from odradek.quorum.ports import CommandPort, QuorumPort
from odradek.quorum.quorum import Quorum
from odradek.server.audit.trail import AuditTrail
from odradek.server.authorization import new_authorizer
from odradek.server.context import ConnectionPort, HandlerAudit
from odradek.server.slices import SliceTurns
from odradek.server.throttling import new_client_quotas


class ControllerNode:
    def __init__(
        self,
        config: NodeConfig,
        quorum: Quorum,
        *,
        cluster_id: str,
        clock: Clock,
        executor: Executor,
        trail: AuditTrail | None = None,
    ) -> None:
        """`trail` leads to the node's audit log, if it has one."""
        self.config: Final = config
        self.node_id: Final = config.node_id
        self.cluster_id: Final = cluster_id
        self.clock: Final = clock
        self.executor: Final = executor
        self.slice_turns: Final = SliceTurns()
        self.authorizer: Final = new_authorizer(config, clock, trail)
        """None: every client may do everything."""
        self.audit: Final = None if trail is None else _new_audit(trail, has_authorizer=self.authorizer is not None)
        self._loading_acls: asyncio.Task[None] | None = None
        self.client_quotas: Final = new_client_quotas(config)
        self._quorum: Final = quorum
        self._reached_brokers: Final = ReachedBrokers(config, clock=clock)
        self._dead_brokers: Final = DeadBrokers(
            config,
            quorum.controller,
            self._reached_brokers,
            clock=clock,
            majority_fetched_within=quorum.driver.has_fetched_recently,
            on_fault=quorum.controller.on_fault,
        )
        self._takeovers: Final = Takeovers(
            config,
            self._reached_brokers,
            self._dead_brokers,
            clock=clock,
            is_only_voter=lambda: len(quorum.driver.state_machine.quorum.voters) == 1,
        )
        self._tasks: Final = ControllerTasks(
            config, quorum.controller, clock=clock, on_fault=quorum.controller.on_fault
        )
        self._registration: OwnRegistration | None = None

    def start(
        self, active_controller: ControllerPort, *, endpoints: Sequence[Listener], incarnation_id: UUID, random: Random
    ) -> None:
        """To be called before the quorum starts. `active_controller` is the active one, on whichever node it runs."""
        self._registration = OwnRegistration(
            self.node_id, active_controller, endpoints=endpoints, incarnation_id=incarnation_id, random=random
        )
        self._quorum.controller.on_activation(self._tasks.on_activation)
        self._quorum.controller.on_activation(self._dead_brokers.on_activation)
        self._quorum.subscribe(self._registration.on_image)
        self._quorum.subscribe(self._reached_brokers.on_image)
        if self.authorizer is not None:
            self.authorizer.load(self._quorum.image.access_control_entries)
            self._quorum.subscribe(self._update_acls)
            self._loading_acls = start_task("loading of the ACLs", self._load_acls())
        self._quorum.subscribe(self._on_image)
        self.client_quotas.change(self._quorum.image.client_quotas)
        self._registration.start(self._quorum.image)
        self._reached_brokers.start(self._quorum.image)

    async def _load_acls(self) -> None:
        """Until the committed ACLs are known, only super users may do anything."""
        assert self.authorizer is not None
        await self._quorum.wait_until_committed_is_applied()
        self.authorizer.set_ready()

    async def _update_acls(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.access_control_changed and self.authorizer is not None:
            self.authorizer.update(image.access_control_entries, delta.access_control_changed)

    def stop(self) -> None:
        if self._loading_acls is not None:
            self._loading_acls.cancel()
        if self._registration is not None:
            self._registration.stop()
        self._tasks.on_activation(None)
        self._dead_brokers.on_activation(None)
        self._reached_brokers.stop()

    async def _on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.client_quotas_changed:
            self.client_quotas.change(image.client_quotas)

    # ControllerNodePort

    @property
    def image(self) -> ClusterImage:
        return self._quorum.image

    @property
    def controller(self) -> CommandPort:
        return self._quorum.controller

    @property
    def quorum(self) -> QuorumPort:
        return self._quorum.driver

    def access_of(self, principal: Principal, host: str) -> Access:
        return UNRESTRICTED if self.authorizer is None else self.authorizer.access_of(principal, host)

    async def find_dead_process(self, registration: Registration, peer_host: str | None) -> DeadProcess | None:
        try:
            controller = await self._quorum.controller.wait_for_activation()
        except KafkaError:
            return None
        return await self._takeovers.find_dead_process(controller, registration, peer_host)

    def on_heartbeat(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        self._dead_brokers.on_heartbeat(broker_id, broker_epoch, connection)


def _new_audit(trail: AuditTrail, *, has_authorizer: bool) -> HandlerAudit:
    # Imported only by nodes with an audit log.
    from odradek.quorum.audited_commands import ControllerAudit

    return ControllerAudit(trail, has_authorizer=has_authorizer)
