"""A broker's membership in the cluster: registration, heartbeats, and the controlled way out.

All of it goes through the controller's own requests, whether the controller is this process or another.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import ControllerPort
from odradek.config.listeners import SECURITY_PROTOCOLS, Listener
from odradek.config.node_config import NodeConfig
from odradek.metadata.features import SUPPORTED_FEATURES
from odradek.protocol.schemas import Message, schema

logger = logging.getLogger(__name__)

BROKER_REGISTRATION: Final = (62, 4)
BROKER_HEARTBEAT: Final = (63, 1)
CONTROLLED_SHUTDOWN_SECONDS_MAX: Final = 5.0


class Membership:
    def __init__(
        self,
        config: NodeConfig,
        controller: ControllerPort,
        *,
        cluster_id: str,
        incarnation_id: UUID,
        metadata_offset: Callable[[], int],
    ) -> None:
        self._config: Final = config
        self._controller: Final = controller
        self._cluster_id: Final = cluster_id
        self._incarnation_id: Final = incarnation_id
        self._metadata_offset: Final = metadata_offset
        self._heartbeats: asyncio.Task[None] | None = None
        self._wake: Final = asyncio.Event()
        self._offline_dirs: frozenset[UUID] = frozenset()
        self.broker_epoch = -1

    async def register(
        self, listeners: Sequence[Listener], directory_ids: Collection[UUID], previous_broker_epoch: int
    ) -> None:
        messages = schema(*BROKER_REGISTRATION)
        request = messages.new(
            "BrokerRegistrationRequest",
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=tuple(
                messages.new(
                    "Listener",
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=SECURITY_PROTOCOLS.index(listener.security_protocol),
                )
                for listener in listeners
            ),
            features=tuple(
                messages.new("Feature", name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ),
            rack=self._config.broker_rack,
            is_migrating_zk_broker=False,
            log_dirs=tuple(directory_ids),
            previous_broker_epoch=previous_broker_epoch,
        )
        response = await self._controller.handle(*BROKER_REGISTRATION, request)
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, "the controller refused this broker's registration")
        self.broker_epoch = response.broker_epoch

    async def unfence(self) -> None:
        """Tells the controller that this broker serves, and goes on telling it."""
        await self._beat(want_shut_down=False)
        self._heartbeats = asyncio.ensure_future(self._keep_beating())

    def report_offline_dirs(self, directory_ids: Collection[UUID]) -> None:
        self._offline_dirs |= frozenset(directory_ids)
        self._wake.set()

    async def leave(self, *, politely: bool) -> None:
        """Ends the heartbeats; politely: gives up leadership first, as far as others can take it over."""
        if self._heartbeats is None:
            return
        self._heartbeats.cancel()
        if not politely:
            return
        try:
            async with asyncio.timeout(CONTROLLED_SHUTDOWN_SECONDS_MAX):
                while not (await self._beat(want_shut_down=True)).should_shut_down:
                    await asyncio.sleep(self._interval_seconds / 10)
        except TimeoutError:
            logger.warning("the controller did not let this broker go in time; stopping all the same")
        except KafkaError as error:
            logger.warning("leaving the cluster failed: %s; stopping all the same", error)

    @property
    def _interval_seconds(self) -> float:
        interval_ms = self._config.effective("broker.heartbeat.interval.ms")
        assert isinstance(interval_ms, int)
        return interval_ms / 1000

    async def _keep_beating(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._beat(want_shut_down=False)
            except KafkaError as error:
                logger.warning("heartbeat refused: %s", error)

    async def _beat(self, *, want_shut_down: bool) -> Message:
        request = schema(*BROKER_HEARTBEAT).new(
            "BrokerHeartbeatRequest",
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=tuple(self._offline_dirs),
        )
        response = await self._controller.handle(*BROKER_HEARTBEAT, request)
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code)
        return response
