"""A broker's lifecycle in the cluster: registration, heartbeats and controlled shutdown.

It sends Kafka's requests to the controller, in this process or in another. A broker that was fenced because its
heartbeats did not arrive keeps running, and its next heartbeat unfences it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final
from uuid import UUID

from odradek.base.background import start_task
from odradek.base.backoff import backoff_seconds
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, ControllerPort, Random
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.features import IV_3_7_DIRECTORIES, METADATA_VERSION
from odradek.core.metadata.image import ClusterImage
from odradek.wire.apis import ApiKey
from odradek.wire.offered import offered_features, offered_listeners
from odradek.wire.schemas import Message, schema

logger = logging.getLogger(__name__)

BROKER_REGISTRATION: Final = (ApiKey.BROKER_REGISTRATION, 4)
BROKER_HEARTBEAT: Final = (ApiKey.BROKER_HEARTBEAT, 1)

CONTROLLED_SHUTDOWN_SECONDS_MAX: Final = 300.0
"""As in Kafka."""
FIRST_RETRY_SECONDS: Final = 0.01
"""The first interval between heartbeats of a broker that waits to be unfenced; it doubles."""
SHUTDOWN_HEARTBEAT_SECONDS: Final = 0.05
SHUTDOWN_RESPONSE_SECONDS_MAX: Final = 2.0
"""When a whole cluster stops, the last broker finds no controller, and must not wait for one."""

_REASONS: Final = {
    ErrorCode.duplicate_broker_registration: "another broker with node.id={node_id} is running. "
    "Give each node a unique node.id, and do not start a copy of a running node's log dirs.",
    ErrorCode.cluster_authorization_failed: "the principal of this broker needs CLUSTER_ACTION on the cluster. "
    "Add it to super.users of every controller.",
    ErrorCode.inconsistent_cluster_id: "the log dirs of this node belong to cluster {cluster_id}, and its controllers "
    "to another. Format the log dirs for that cluster, or correct the controller addresses.",
    ErrorCode.unsupported_version: "the cluster uses features that this release does not support. "
    "Start the node with a newer release.",
    ErrorCode.invalid_registration: "the controllers reject the directory IDs of its log dirs: a meta.properties was "
    "copied from another node or directory. Remove it and format the directory.",
    ErrorCode.request_timed_out: "no active controller responded. A majority of the controllers must run, and this "
    "node must reach them at the addresses of controller.quorum.voters or controller.quorum.bootstrap.servers.",
}
_FINAL: Final = frozenset(
    {ErrorCode.inconsistent_cluster_id, ErrorCode.unsupported_version, ErrorCode.invalid_registration}
)
"""Errors that do not go away with a retry."""


class BrokerLifecycle:
    def __init__(
        self,
        config: NodeConfig,
        controller: ControllerPort,
        *,
        cluster_id: str,
        incarnation_id: UUID,
        metadata_offset: Callable[[], int],
        clock: Clock,
        random: Random,
    ) -> None:
        self._config: Final = config
        self._controller: Final = controller
        self._cluster_id: Final = cluster_id
        self._incarnation_id: Final = incarnation_id
        self._metadata_offset: Final = metadata_offset
        self._clock: Final = clock
        self._random: Final = random
        self._interval_seconds: Final = max(1, config.broker_heartbeat_interval_ms) / 1000
        self._retry_seconds_max: Final = max(1, config.broker_session_timeout_ms) / 1000
        self._registration: Message = None
        self._must_register = False
        self._is_ready = False
        self._is_shutting_down = False
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._offline_dirs: Final[dict[UUID, bool]] = {}
        """Directories that failed, and whether they were reported to the controller."""
        self._heartbeat_requested: Final = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._unfenced: Final[asyncio.Future[None]] = loop.create_future()
        self._may_stop: Final[asyncio.Future[None]] = loop.create_future()
        self._heartbeats: asyncio.Task[None] | None = None
        self.broker_epoch = -1
        self.failed: Final[asyncio.Future[str]] = loop.create_future()
        """Done, with the reason, when this broker must stop."""

    # Registration

    async def register(
        self, listeners: Sequence[Listener], directory_ids: Collection[UUID], previous_broker_epoch: int
    ) -> None:
        """Registers the broker, with retries, and starts its heartbeats. The broker stays fenced until `unfence`.

        Raises KafkaError with the reason if it fails permanently or for too long.
        """
        self._registration = self._registration_request(listeners, directory_ids, previous_broker_epoch)
        deadline = self._clock.monotonic() + self._config.initial_broker_registration_timeout_ms / 1000
        failures = 0
        last_error = ErrorCode.request_timed_out
        while (code := await self._try_to_register(deadline)) is not ErrorCode.none:
            failures += 1
            if code is not ErrorCode.request_timed_out:
                # A later timeout must not hide this reason.
                last_error = code
            pause = backoff_seconds(failures, self._retry_seconds_max, self._random)
            if code in _FINAL or self._clock.monotonic() + pause > deadline:
                raise self._error(last_error)
            if failures == 1:
                logger.warning("Broker registration failed, retrying: %s", self._error(code))
            await asyncio.sleep(pause)
        self._heartbeats = start_task("heartbeats", self._send_heartbeats())

    async def unfence(self) -> None:
        """Reports that this broker is ready. Returns once the controller has unfenced it."""
        self._is_ready = True
        self.heartbeat_now()
        await asyncio.shield(self._unfenced)

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        own = image.brokers.get(self._config.node_id)
        if own is not None and own.epoch > self.broker_epoch >= 0 and own.incarnation_id != self._incarnation_id:
            self._fail(
                f"Another process has registered with node.id={self._config.node_id} while this broker could not be "
                "reached. Check whether a log dir was copied."
            )
        # The cluster supports directories from now on, so the broker registers those that it has.
        if (
            METADATA_VERSION in delta.features_changed
            and image.features.metadata_version >= IV_3_7_DIRECTORIES
            and own is not None
            and own.incarnation_id == self._incarnation_id
            and not own.directories
        ):
            self._must_register = True
            self.heartbeat_now()

    # Heartbeats

    def heartbeat_now(self) -> None:
        """Sends a heartbeat at once: the active controller may be a new one, or there is something to report."""
        self._heartbeat_requested.set()

    def report_offline_dirs(self, directory_ids: Collection[UUID]) -> None:
        """The controller then elects other leaders. If the report does not arrive in time, the broker must stop."""
        loop = asyncio.get_running_loop()
        for directory_id in directory_ids:
            if directory_id not in self._offline_dirs:
                self._offline_dirs[directory_id] = False
                loop.call_later(self._config.log_dir_failure_timeout_ms / 1000, self._check_reported, directory_id)
        self.heartbeat_now()

    def _check_reported(self, directory_id: UUID) -> None:
        if not self._offline_dirs[directory_id] and self._heartbeats is not None and not self._heartbeats.done():
            self._fail(
                "A log dir failed, and the controller did not receive the report within log.dir.failure.timeout.ms."
            )

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    async def _send_heartbeats(self) -> None:
        failures = 0
        while True:
            # A request from here on needs another heartbeat.
            self._heartbeat_requested.clear()
            try:
                if self._must_register:
                    await self._register_again()
                pause = self._next_interval(await self._heartbeat())
                failures = 0
            except KafkaError as error:
                if self._is_shutting_down:
                    logger.warning("Controlled shutdown failed, stopping anyway: %s", error)
                    _resolve(self._may_stop)
                    return
                failures += 1
                pause = backoff_seconds(failures, self._retry_seconds_max, self._random)
                logger.warning("Heartbeat failed: %s", error)
            try:
                async with asyncio.timeout(pause):
                    await self._heartbeat_requested.wait()
            except TimeoutError:
                pass

    def _next_interval(self, response: Message) -> float:
        if self._is_shutting_down:
            if response.should_shut_down:
                _resolve(self._may_stop)
            return min(SHUTDOWN_HEARTBEAT_SECONDS, self._interval_seconds)
        if response.is_caught_up and not (response.is_fenced and self._is_ready):
            if not response.is_fenced:
                _resolve(self._unfenced)
            self._retry_seconds = FIRST_RETRY_SECONDS
            return self._interval_seconds
        pause = min(self._retry_seconds, self._interval_seconds)
        self._retry_seconds = 2 * pause
        return pause

    # Shutdown

    async def stop(self, *, controlled: bool) -> None:
        """Ends the heartbeats. A controlled shutdown first moves leadership to other brokers, where possible."""
        if self._heartbeats is None:
            return
        if controlled and self._config.controlled_shutdown_enable and self._unfenced.done():
            self._is_shutting_down = True
            self.heartbeat_now()
            await asyncio.wait((self._may_stop,), timeout=CONTROLLED_SHUTDOWN_SECONDS_MAX)
            if not self._may_stop.done():
                logger.warning("Controlled shutdown timed out, stopping anyway")
        self._heartbeats.cancel()
        await asyncio.wait((self._heartbeats,))

    # Requests

    async def _try_to_register(self, deadline: float = inf) -> ErrorCode:
        left = deadline - self._clock.monotonic()
        try:
            async with asyncio.timeout(None if left == inf else max(0.0, left)):
                response = await self._controller.handle(*BROKER_REGISTRATION, self._registration)
        except TimeoutError:
            return ErrorCode.request_timed_out
        code: ErrorCode = response.error_code
        if code is ErrorCode.none:
            self.broker_epoch = response.broker_epoch
        return code

    async def _register_again(self) -> None:
        code = await self._try_to_register()
        if code is not ErrorCode.none:
            raise self._error(code)
        self._must_register = False

    async def _heartbeat(self) -> Message:
        offline_dirs = tuple(self._offline_dirs)
        request = schema(*BROKER_HEARTBEAT).new(
            "BrokerHeartbeatRequest",
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._is_ready,
            want_shut_down=self._is_shutting_down,
            offline_log_dirs=offline_dirs,
        )
        try:
            async with asyncio.timeout(SHUTDOWN_RESPONSE_SECONDS_MAX if self._is_shutting_down else None):
                response = await self._controller.handle(*BROKER_HEARTBEAT, request)
        except TimeoutError:
            raise KafkaError(ErrorCode.request_timed_out) from None
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code)
        self._offline_dirs.update(dict.fromkeys(offline_dirs, True))
        return response

    def _registration_request(
        self, listeners: Sequence[Listener], directory_ids: Collection[UUID], previous_broker_epoch: int
    ) -> Message:
        messages = schema(*BROKER_REGISTRATION)
        return messages.new(
            "BrokerRegistrationRequest",
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=offered_listeners(messages, listeners),
            features=offered_features(messages),
            rack=self._config.broker_rack,
            is_migrating_zk_broker=False,
            log_dirs=tuple(directory_ids),
            previous_broker_epoch=previous_broker_epoch,
        )

    def _error(self, code: ErrorCode) -> KafkaError:
        reason = _REASONS.get(code, "the controller rejected the registration of this broker")
        return KafkaError(code, reason.format(node_id=self._config.node_id, cluster_id=self._cluster_id))


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
