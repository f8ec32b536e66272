"""The background tasks of the active controller.

It fences brokers whose session has expired, writes a record when the log has been idle, elects leaders uncleanly where
topics allow that, returns leadership to preferred replicas, and removes expired delegation tokens.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from odradek.base.background import OnFault, start_task
from odradek.base.errors import KafkaError
from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import ControllerResult
from odradek.core.controller.controller import Controller
from odradek.node.dead_brokers import OwnCommandPort

logger = logging.getLogger(__name__)

Task = Callable[[], Awaitable[None]]


class ControllerTasks:
    def __init__(self, config: NodeConfig, controller: OwnCommandPort, *, clock: Clock, on_fault: OnFault) -> None:
        """`on_fault` makes the controller resign."""
        self._session_seconds: Final = max(0, config.broker_session_timeout_ms) / 1000
        self._late_seconds_max: Final = max(1, config.broker_heartbeat_interval_ms) / 1000
        self._idle_seconds_max: Final = config.metadata_max_idle_interval_ms / 1000
        self._rebalance_seconds: Final = config.leader_imbalance_check_interval_seconds
        self._should_rebalance: Final = config.auto_leader_rebalance_enable
        self._unclean_election_seconds: Final = config.unclean_leader_election_interval_ms / 1000
        self._token_sweep_seconds: Final = config.delegation_token_expiry_check_interval_ms / 1000
        self._controller: Final = controller
        self._clock: Final = clock
        self._on_fault: Final = on_fault
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def on_activation(self, controller: Controller | None) -> None:
        """Called with this node's controller when it becomes active, and with None when it resigns."""
        for task in self._tasks:
            task.cancel()
        self._tasks = ()
        if controller is not None:
            tasks: dict[str, Task] = {
                "session expiry": partial(self._expire_sessions, controller),
                "unclean leader election": partial(
                    self._elect, Controller.elect_unclean_leaders, self._unclean_election_seconds
                ),
                "delegation token expiry": self._sweep_tokens,
            }
            if self._idle_seconds_max > 0:
                tasks["no-op records"] = self._write_no_ops
            if self._should_rebalance:
                tasks["leader rebalancing"] = partial(self._elect, Controller.balance_leaders, self._rebalance_seconds)
            self._tasks = tuple(self._start(name, task) for name, task in tasks.items())

    def _start(self, name: str, task: Task) -> asyncio.Task[None]:
        return start_task(name, self._run_until_resignation(task), self._on_fault)

    async def _run_until_resignation(self, task: Task) -> None:
        try:
            await task()
        except KafkaError as error:
            # The next active controller runs the same tasks.
            logger.debug("Controller tasks stopped: %s", error)

    async def _expire_sessions(self, controller: Controller) -> None:
        while True:
            # A session that starts now expires later than this, so there is nothing to check before.
            due = controller.next_session_expiry()
            due = self._clock.monotonic() + self._session_seconds if due is None else due
            await asyncio.sleep(max(0.001, due - self._clock.monotonic()))
            if self._clock.monotonic() - due > self._late_seconds_max:
                # This process was stalled: heartbeats of brokers may still be unread.
                await asyncio.sleep(self._late_seconds_max)
            await self._fence_expired_brokers()

    async def _fence_expired_brokers(self) -> None:
        def expire(controller: Controller) -> ControllerResult[int | None]:
            return controller.expire_sessions(self._clock.monotonic())

        while (broker_id := await self._controller.execute_own(expire)) is not None:
            logger.warning("Broker fenced: brokerId=%d, reason=session expired", broker_id)

    async def _write_no_ops(self) -> None:
        while True:
            await asyncio.sleep(self._idle_seconds_max)
            await self._controller.execute_own(Controller.write_no_op)

    async def _sweep_tokens(self) -> None:
        def sweep(controller: Controller) -> ControllerResult[bool]:
            return controller.sweep_delegation_tokens(self._clock.wall_ms())

        while True:
            await asyncio.sleep(self._token_sweep_seconds)
            while await self._controller.execute_own(sweep):
                pass

    async def _elect(self, elect_some: Callable[[Controller], ControllerResult[bool]], interval_seconds: float) -> None:
        while True:
            await asyncio.sleep(interval_seconds)
            while await self._controller.execute_own(elect_some):
                pass
