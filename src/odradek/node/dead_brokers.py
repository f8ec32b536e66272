"""The sockets and timers of the detection of dead brokers: it probes ports and fences brokers.

The rules are in `core/liveness/dead_brokers`. The detection runs only while this node's controller is the active one.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from odradek.base.background import OnFault, report_fault
from odradek.base.errors import KafkaError
from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import ControllerResult
from odradek.core.controller.controller import Controller
from odradek.core.liveness.dead_brokers import (
    Activated,
    ConnectionClosed,
    DeadBrokerDetector,
    DetectionSettings,
    Effect,
    Event,
    FenceBroker,
    HeartbeatAccepted,
    Probe,
    ProbeCompleted,
    TimePassed,
    WakeAt,
    WriteNoOp,
)
from odradek.core.liveness.probes import ProbeResult
from odradek.node.probes import ProbeTasks, probe_endpoint
from odradek.node.reached_brokers import ReachedBrokers
from odradek.server.context import ConnectionPort

logger = logging.getLogger(__name__)

T = TypeVar("T")


class OwnCommandPort(Protocol):
    """The active controller, for commands of its own background tasks."""

    async def execute_own(self, command: Callable[[Controller], ControllerResult[T]]) -> T:
        """Raises KafkaError."""


class _WatchedConnection:
    """A connection on which a heartbeat arrived. Its `on_close` is the same object every time it is registered."""

    def __init__(
        self, number: int, connection: ConnectionPort, listener: Callable[["_WatchedConnection"], None]
    ) -> None:
        self.number: Final = number
        self.connection: Final = connection
        self._listener: Final = listener

    def on_close(self) -> None:
        self._listener(self)


class DeadBrokers:
    def __init__(
        self,
        config: NodeConfig,
        controller: OwnCommandPort,
        reached: ReachedBrokers,
        *,
        clock: Clock,
        majority_fetched_within: Callable[[float], bool],
        on_fault: OnFault = report_fault,
    ) -> None:
        """`majority_fetched_within` takes seconds: has a majority of the voters fetched within them?"""
        self._settings: Final = DetectionSettings(
            grace_seconds=config.broker_disconnect_grace_ms / 1000,
            session_timeout_seconds=config.broker_session_timeout_ms / 1000,
            own_id=config.node_id,
            inter_broker_listener_name=config.inter_broker_listener_name,
        )
        self._controller: Final = controller
        self._reached: Final = reached
        self._clock: Final = clock
        self._majority_fetched_within: Final = majority_fetched_within
        self._detector: DeadBrokerDetector | None = None
        self._watched: Final[dict[ConnectionPort, _WatchedConnection]] = {}
        self._last_number = 0
        self._tasks: Final = ProbeTasks("detection of dead brokers", clock, lambda: self._step(TimePassed()), on_fault)

    def on_activation(self, controller: Controller | None) -> None:
        """Called with this node's controller when it becomes active, and with None when it resigns."""
        self._stop()
        if controller is not None and self._settings.grace_seconds > 0:
            self._detector = DeadBrokerDetector(
                self._settings,
                lambda: controller.image.brokers,
                self._reached.has_reached,
                self._majority_fetched_within,
            )
            self._step(Activated())

    def on_heartbeat(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        """The controller accepted a heartbeat that arrived on this connection."""
        if self._detector is None:
            return
        watched = self._watched.get(connection)
        if watched is None:
            self._last_number += 1
            watched = _WatchedConnection(self._last_number, connection, self._on_close)
            self._watched[connection] = watched
        self._step(HeartbeatAccepted(broker_id, broker_epoch, watched.number))
        connection.on_close(watched.on_close)

    def is_connected(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the connection of the last heartbeat of this registration is open."""
        return self._detector is not None and self._detector.is_connected(broker_id, broker_epoch)

    def _stop(self) -> None:
        self._detector = None
        self._watched.clear()
        self._tasks.stop()

    def _on_close(self, watched: _WatchedConnection) -> None:
        if self._watched.get(watched.connection) is watched:
            del self._watched[watched.connection]
            self._step(ConnectionClosed(watched.number, by_us=watched.connection.was_closed_here))

    # The state machine

    def _step(self, event: Event) -> None:
        if self._detector is not None:
            for effect in self._detector.step(event, self._clock.monotonic()):
                self._execute(effect)

    def _execute(self, effect: Effect) -> None:
        match effect:
            case Probe():
                self._tasks.start(self._probe(effect))
            case WriteNoOp():
                self._tasks.start(self._write_no_op())
            case FenceBroker():
                self._tasks.start(self._fence(effect))
            case WakeAt(moment):
                self._tasks.wake_at(moment)

    async def _probe(self, effect: Probe) -> None:
        result = await probe_endpoint(effect.endpoint, effect.timeout_seconds)
        if result is ProbeResult.CONNECTED:
            self._reached.on_connect(effect.endpoint)
        self._step(ProbeCompleted(effect.broker_id, effect.attempt, result))

    async def _write_no_op(self) -> None:
        try:
            await self._controller.execute_own(Controller.write_no_op)
        except KafkaError as error:
            logger.debug("No-op record not written: %s", error)

    async def _fence(self, effect: FenceBroker) -> None:
        try:
            was_fenced = await self._controller.execute_own(
                lambda controller: controller.fence_unresponsive_broker(
                    effect.broker_id, effect.broker_epoch, effect.unresponsive_since
                )
            )
        except KafkaError as error:
            logger.info("Dead broker not fenced: brokerId=%d, reason=%s", effect.broker_id, error)
            return
        if was_fenced:
            logger.warning("Broker fenced: brokerId=%d, reason=process is dead", effect.broker_id)
