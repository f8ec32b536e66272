"""The probe of a registered broker that another process wants to replace. The rules are in `core/liveness/takeover`."""

import logging
from collections.abc import Callable
from typing import Final

from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import DeadProcess, Registration
from odradek.core.controller.controller import Controller
from odradek.core.liveness.probes import RegisteredEndpoint, find_registered_endpoint
from odradek.core.liveness.takeover import is_proof_of_death, may_be_dead
from odradek.core.metadata.image import find_inter_broker_endpoint
from odradek.node.dead_brokers import DeadBrokers
from odradek.node.probes import probe_endpoint
from odradek.node.reached_brokers import ReachedBrokers
from odradek.server.connecting import is_address_of

logger = logging.getLogger(__name__)


class Takeovers:
    def __init__(
        self,
        config: NodeConfig,
        reached: ReachedBrokers,
        dead_brokers: DeadBrokers,
        *,
        clock: Clock,
        is_only_voter: Callable[[], bool],
    ) -> None:
        self._own_id: Final = config.node_id
        self._listener_name: Final = config.inter_broker_listener_name
        self._probe_seconds_max: Final = config.broker_disconnect_grace_ms / 2000
        self._reached: Final = reached
        self._dead_brokers: Final = dead_brokers
        self._clock: Final = clock
        self._is_only_voter: Final = is_only_voter

    async def find_dead_process(
        self, controller: Controller, registration: Registration, peer_host: str | None
    ) -> DeadProcess | None:
        """The process that holds the broker ID, if it is dead although its session is alive. None: it may be alive.

        `peer_host` is the address that the registration comes from. None: it comes from within this process.
        """
        now = self._clock.monotonic()
        registered = controller.image.brokers.get(registration.broker_id)
        if registered is None or not controller.has_session(registered.id, now):
            return None
        if not may_be_dead(
            registered,
            incarnation_id=registration.incarnation_id,
            directories=registration.directories,
            sends_heartbeats=self._dead_brokers.is_connected(registered.id, registered.epoch),
            is_of_own_node=registered.id == self._own_id,
            is_in_own_process=peer_host is None,
        ):
            return None
        dead = DeadProcess(registered.epoch, now)
        if peer_host is None and self._is_only_voter():
            # A copy of this node would be a cluster of its own.
            return dead
        endpoint = find_registered_endpoint(registered, self._listener_name)
        if endpoint is None or not self._probe_seconds_max:
            return None
        return dead if await self._is_dead(endpoint, registration, peer_host) else None

    async def _is_dead(self, endpoint: RegisteredEndpoint, registration: Registration, peer_host: str | None) -> bool:
        result = await probe_endpoint(endpoint, self._probe_seconds_max)
        is_dead = is_proof_of_death(
            result,
            has_accepted_before=self._reached.has_reached(endpoint),
            is_at_probed_endpoint=await self._is_at(endpoint, registration, peer_host),
            is_in_own_process=peer_host is None,
        )
        logger.info(
            "Registered process probed: brokerId=%d, address=%s:%d, result=%s, isDead=%s",
            endpoint.broker_id,
            endpoint.host,
            endpoint.port,
            result.name,
            is_dead,
        )
        return is_dead

    async def _is_at(self, endpoint: RegisteredEndpoint, registration: Registration, peer_host: str | None) -> bool:
        """Whether the process that registers has this endpoint, and sends its registration from there."""
        own = find_inter_broker_endpoint(registration.endpoints, self._listener_name)
        if peer_host is None or own is None or (own.host, own.port) != (endpoint.host, endpoint.port):
            return False
        return await is_address_of(endpoint.host, peer_host)
