"""The controller's side of a node: what its listeners are answered by, and what it does unasked.

`ControllerNodePort` of the handlers. Whether this node's controller is the active one is the quorum's matter; the
duties of the active one begin and end with that.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from odradek.base.ports import Clock, ControllerPort, Executor, Random
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.node.controller_duties import ControllerDuties
from odradek.node.controller_registration import OwnRegistration
from odradek.node.dead_brokers import DeadBrokers
from odradek.quorum.ports import QuorumPort
from odradek.quorum.quorum import Quorum
from odradek.server.context import ConnectionPort


class ControllerNode:
    def __init__(
        self,
        config: NodeConfig,
        quorum: Quorum,
        active_controller: ControllerPort,
        *,
        endpoints: Sequence[Listener],
        incarnation_id: UUID,
        cluster_id: str,
        clock: Clock,
        random: Random,
        executor: Executor,
    ) -> None:
        """`active_controller` is the active one, wherever it runs."""
        self.config: Final = config
        self.node_id: Final = config.node_id
        self.cluster_id: Final = cluster_id
        self.clock: Final = clock
        self.executor: Final = executor
        self._quorum: Final = quorum
        self._dead_brokers: Final = DeadBrokers(
            config, quorum.controller, clock=clock, majority_fetched_within=quorum.driver.fetched_recently
        )
        self._duties: Final = ControllerDuties(config, quorum.controller, clock=clock)
        self._registration: Final = OwnRegistration(
            config.node_id, active_controller, endpoints=endpoints, incarnation_id=incarnation_id, random=random
        )

    def begin(self) -> None:
        """Before the quorum starts."""
        self._quorum.controller.on_activation(self._duties.controller_changed)
        self._quorum.controller.on_activation(self._dead_brokers.controller_changed)
        self._quorum.subscribe(self._registration.on_image)
        self._registration.begin_with(self._quorum.image)

    def stop(self) -> None:
        self._registration.stop()
        self._duties.controller_changed(None)
        self._dead_brokers.controller_changed(None)

    # What handlers see

    @property
    def image(self) -> ClusterImage:
        return self._quorum.image

    @property
    def controller(self) -> ControllerPort:
        return self._quorum.controller.remote

    @property
    def quorum(self) -> QuorumPort:
        return self._quorum

    def heard_from(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        self._dead_brokers.heard_from(broker_id, broker_epoch, connection)
