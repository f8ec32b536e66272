"""What the active controller does unasked: it ends the sessions of silent brokers, keeps the log growing, and brings
leadership back to where it belongs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from odradek.base.errors import KafkaError
from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.controller.controller import Controller
from odradek.core.controller.decision import Decision
from odradek.node.dead_brokers import CommandRunner

logger = logging.getLogger(__name__)

Duty = Callable[[], Awaitable[None]]


class ControllerDuties:
    def __init__(self, config: NodeConfig, controller: CommandRunner, *, clock: Clock) -> None:
        self._session_seconds: Final = max(0, config.broker_session_timeout_ms) / 1000
        self._late_seconds_max: Final = max(1, config.broker_heartbeat_interval_ms) / 1000
        self._idle_seconds_max: Final = config.metadata_max_idle_interval_ms / 1000
        self._balance_seconds: Final = config.leader_imbalance_check_interval_seconds
        self._balances: Final = config.auto_leader_rebalance_enable
        self._unclean_election_seconds: Final = config.unclean_leader_election_interval_ms / 1000
        self._controller: Final = controller
        self._clock: Final = clock
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def controller_changed(self, controller: Controller | None) -> None:
        """To be told when this node's controller becomes active, and with None when it is no more."""
        for task in self._tasks:
            task.cancel()
        self._tasks = ()
        if controller is not None:
            duties: list[Duty] = [
                partial(self._end_sessions, controller),
                partial(self._elect, Controller.elect_unclean_leaders, self._unclean_election_seconds),
            ]
            if self._idle_seconds_max > 0:
                duties.append(self._stay_awake)
            if self._balances:
                duties.append(partial(self._elect, Controller.balance_leaders, self._balance_seconds))
            self._tasks = tuple(map(self._begin, duties))

    def _begin(self, duty: Duty) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._until_it_resigns(duty))

    async def _until_it_resigns(self, duty: Duty) -> None:
        try:
            await duty()
        except KafkaError as error:
            # Whoever takes over has the same duties; so has this node, should it be active again.
            logger.debug("this controller's duties end: %s", error)

    async def _end_sessions(self, controller: Controller) -> None:
        while True:
            # A session that begins now will not end before that: there is nothing to look for meanwhile.
            due = controller.next_session_expiry()
            due = self._clock.monotonic() + self._session_seconds if due is None else due
            await asyncio.sleep(max(0.001, due - self._clock.monotonic()))
            if self._clock.monotonic() - due > self._late_seconds_max:
                # It was this process that stood still: the heartbeats of others may lie unread.
                await asyncio.sleep(self._late_seconds_max)
            await self._fence_silent_brokers()

    async def _fence_silent_brokers(self) -> None:
        def expire(controller: Controller) -> Decision[int | None]:
            return controller.expire_sessions(self._clock.monotonic())

        while (broker_id := await self._controller.run_command(expire)) is not None:
            logger.warning("broker %d is fenced: it was silent for a whole session", broker_id)

    async def _stay_awake(self) -> None:
        while True:
            await asyncio.sleep(self._idle_seconds_max)
            await self._controller.run_command(Controller.stay_awake)

    async def _elect(self, some_leaders: Callable[[Controller], Decision[bool]], interval_seconds: float) -> None:
        while True:
            await asyncio.sleep(interval_seconds)
            while await self._controller.run_command(some_leaders):
                pass
