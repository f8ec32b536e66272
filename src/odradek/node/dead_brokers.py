"""Drives the detection of dead processes: connections that end, connects that are tried, timers, and the fence.

The machine in `controller/` decides; this file has its sockets and its time. There is one as long as this node's
controller is the active one, and nothing is left of it afterwards.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from odradek.base.errors import KafkaError
from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import ControllerResult
from odradek.core.controller.controller import Controller
from odradek.core.liveness.dead_processes import (
    Activated,
    ConnectionClosed,
    DeadProcesses,
    DetectionSettings,
    Effect,
    Event,
    FenceEarly,
    HeartbeatAccepted,
    Knock,
    Knocked,
    Probe,
    RouseVoters,
    TimePassed,
    WakeAt,
)
from odradek.server.connecting import Refused, Unreachable, probe
from odradek.server.context import ConnectionPort

logger = logging.getLogger(__name__)

T = TypeVar("T")


class OwnCommandPort(Protocol):
    """The active controller, for commands of its own background tasks."""

    async def execute_own(self, command: Callable[[Controller], ControllerResult[T]]) -> T:
        """Raises KafkaError."""


class _Watched:
    """A connection that brought a heartbeat. Its `closed` is one and the same however often it is asked for."""

    def __init__(self, number: int, connection: ConnectionPort, ended: Callable[["_Watched"], None]) -> None:
        self.number: Final = number
        self.connection: Final = connection
        self._ended: Final = ended

    def closed(self) -> None:
        self._ended(self)


class DeadBrokers:
    def __init__(
        self,
        config: NodeConfig,
        controller: OwnCommandPort,
        *,
        clock: Clock,
        majority_fetched_within: Callable[[float], bool],
    ) -> None:
        """`majority_fetched_within` is asked with seconds: has a majority of the voters fetched in the last of them?"""
        self._settings: Final = DetectionSettings(
            grace_seconds=config.broker_disconnect_grace_ms / 1000,
            session_timeout_seconds=config.broker_session_timeout_ms / 1000,
            own_id=config.node_id,
            inter_broker_listener_name=config.inter_broker_listener_name,
        )
        self._controller: Final = controller
        self._clock: Final = clock
        self._majority_fetched_within: Final = majority_fetched_within
        self._machine: DeadProcesses | None = None
        self._watched: Final[dict[ConnectionPort, _Watched]] = {}
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: Final[dict[asyncio.Task[None], None]] = {}

    def on_activation(self, controller: Controller | None) -> None:
        """Called with this node's controller when it becomes active, and with None when it resigns."""
        self._stop()
        if controller is not None and self._settings.grace_seconds > 0:
            self._machine = DeadProcesses(
                self._settings, lambda: controller.image.brokers, self._majority_fetched_within
            )
            self._step(Activated())

    def on_heartbeat(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        """A heartbeat was accepted that came on this connection."""
        if self._machine is None:
            return
        watched = self._watched.get(connection)
        if watched is None:
            self._numbers += 1
            watched = self._watched[connection] = _Watched(self._numbers, connection, self._connection_ended)
        self._step(HeartbeatAccepted(broker_id, broker_epoch, watched.number))
        connection.on_close(watched.closed)

    def _stop(self) -> None:
        self._machine = None
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in list(self._tasks):
            task.cancel()

    def _connection_ended(self, watched: _Watched) -> None:
        if self._watched.get(watched.connection) is watched:
            del self._watched[watched.connection]
            self._step(ConnectionClosed(watched.number, by_us=watched.connection.was_closed_here))

    # The machine

    def _step(self, event: Event) -> None:
        if self._machine is not None:
            for effect in self._machine.step(event, self._clock.monotonic()):
                self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Probe():
                self._begin(self._knock(effect))
            case RouseVoters():
                self._begin(self._rouse())
            case FenceEarly():
                self._begin(self._fence(effect))
            case WakeAt(moment):
                if self._timer is not None:
                    self._timer.cancel()
                delay = max(0.0, moment - self._clock.monotonic())
                self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._step(TimePassed())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _knock(self, asked: Probe) -> None:
        try:
            await probe(asked.endpoint.host, asked.endpoint.port, timeout_seconds=asked.timeout_seconds)
            result = Knock.OPENED
        except Refused:
            result = Knock.REFUSED
        except Unreachable:
            result = Knock.UNREACHABLE
        self._step(Knocked(asked.broker_id, asked.attempt, result))

    async def _rouse(self) -> None:
        try:
            await self._controller.execute_own(Controller.write_no_op)
        except KafkaError as error:
            logger.debug("the voters were not roused: %s", error)

    async def _fence(self, wanted: FenceEarly) -> None:
        try:
            was_fenced = await self._controller.execute_own(
                lambda controller: controller.fence_silent_broker(
                    wanted.broker_id, wanted.broker_epoch, wanted.silent_since
                )
            )
        except KafkaError as error:
            logger.info("broker %d, whose process seems to be dead, was not fenced: %s", wanted.broker_id, error)
            return
        if was_fenced:
            logger.warning("broker %d is fenced: its process is dead", wanted.broker_id)
