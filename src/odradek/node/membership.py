"""A broker's membership in the cluster: registration, heartbeats, and the controlled way out.

All of it goes through the controller's own requests, whether the controller is this process or another. A broker that
was fenced, because nobody heard of it for a while, simply goes on: its next heartbeat takes the fence away.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final
from uuid import UUID

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
"""As long as Kafka waits."""
EAGER_SECONDS: Final = 0.01
"""Between heartbeats of a broker that waits to be let in, at first."""
LEAVING_SECONDS: Final = 0.05
LEAVING_SILENCE_SECONDS_MAX: Final = 2.0
"""A controller that does not answer for so long is not waited for: when a whole cluster stops, somebody is the last."""

_REASONS: Final = {
    ErrorCode.duplicate_broker_registration: "another broker with node.id={node_id} is alive; "
    "give each node a number of its own",
    ErrorCode.inconsistent_cluster_id: "this node's log dirs belong to cluster {cluster_id} and its controllers to "
    "another; format them for that one, or correct the addresses of the controllers",
    ErrorCode.unsupported_version: "the cluster uses features that this release does not know; "
    "start the node with a newer one",
    ErrorCode.invalid_registration: "the controllers do not take the ids of its log dirs: a meta.properties was copied "
    "from another node or directory, take it out and format the directory",
    ErrorCode.request_timed_out: "no active controller answered; a majority of the controllers must run, and be "
    "reached from here at the addresses of controller.quorum.voters or controller.quorum.bootstrap.servers",
}
_FINAL: Final = frozenset(
    {ErrorCode.inconsistent_cluster_id, ErrorCode.unsupported_version, ErrorCode.invalid_registration}
)
"""No later attempt would fare better."""


class Membership:
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
        self._is_leaving = False
        self._eager_seconds = EAGER_SECONDS
        self._offline_dirs: Final[dict[UUID, bool]] = {}
        """Those that failed, and whether the controller has heard of it."""
        self._wake: Final = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._unfenced: Final[asyncio.Future[None]] = loop.create_future()
        self._let_go: Final[asyncio.Future[None]] = loop.create_future()
        self._living: asyncio.Task[None] | None = None
        self.broker_epoch = -1
        self.failed: Final[asyncio.Future[str]] = loop.create_future()
        """Done, with the reason, once this broker cannot be a member any more."""

    # Coming

    async def register(
        self, listeners: Sequence[Listener], directory_ids: Collection[UUID], previous_broker_epoch: int
    ) -> None:
        """Until the controller takes it; from then on it hears that this broker lives, and is not ready yet.

        Raises KafkaError, with the reason, for what will not change or has not changed in time.
        """
        self._registration = self._registration_request(listeners, directory_ids, previous_broker_epoch)
        deadline = self._clock.monotonic() + self._config.initial_broker_registration_timeout_ms / 1000
        failures = 0
        refused_for = ErrorCode.request_timed_out
        while (code := await self._try_to_register(deadline)) is not ErrorCode.none:
            failures += 1
            if code is not ErrorCode.request_timed_out:
                # It stays the reason, if no time is left to hear it again.
                refused_for = code
            pause = backoff_seconds(failures, self._retry_seconds_max, self._random)
            if code in _FINAL or self._clock.monotonic() + pause > deadline:
                raise self._refusal(refused_for)
            if failures == 1:
                logger.warning("the broker is not registered yet: %s", self._refusal(code))
            await asyncio.sleep(pause)
        self._living = asyncio.ensure_future(self._live())

    async def unfence(self) -> None:
        """Tells the controller that this broker is ready to serve. Returns once it is to."""
        self._is_ready = True
        self.beat_now()
        await asyncio.shield(self._unfenced)

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        own = image.brokers.get(self._config.node_id)
        if own is not None and own.epoch > self.broker_epoch >= 0 and own.incarnation_id != self._incarnation_id:
            self._fail(
                f"another process has taken the place of this broker, with node.id={self._config.node_id} and the ids "
                "of these log dirs: was a data directory copied?"
            )
        # A cluster that has just learnt of log dirs has to be told of this broker's.
        if (
            METADATA_VERSION in delta.features_changed
            and image.features.metadata_version >= IV_3_7_DIRECTORIES
            and own is not None
            and own.incarnation_id == self._incarnation_id
            and not own.directories
        ):
            self._must_register = True
            self.beat_now()

    # Living

    def beat_now(self) -> None:
        """Whoever is the active controller may not know this broker yet, or there is something to tell."""
        self._wake.set()

    def report_offline_dirs(self, directory_ids: Collection[UUID]) -> None:
        """Leaders of what was there are sought elsewhere. A broker that cannot say so in time must not go on."""
        loop = asyncio.get_running_loop()
        for directory_id in directory_ids:
            if directory_id not in self._offline_dirs:
                self._offline_dirs[directory_id] = False
                loop.call_later(self._config.log_dir_failure_timeout_ms / 1000, self._check_reported, directory_id)
        self.beat_now()

    def _check_reported(self, directory_id: UUID) -> None:
        if not self._offline_dirs[directory_id] and self._living is not None and not self._living.done():
            self._fail("a log dir failed, and no controller could be told of it within log.dir.failure.timeout.ms")

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    async def _live(self) -> None:
        failures = 0
        while True:
            # What is asked for from here on asks for another heartbeat.
            self._wake.clear()
            try:
                if self._must_register:
                    await self._register_again()
                pause = self._digest(await self._beat())
                failures = 0
            except KafkaError as error:
                if self._is_leaving:
                    logger.warning("leaving the cluster failed: %s; stopping all the same", error)
                    _resolve(self._let_go)
                    return
                failures += 1
                pause = backoff_seconds(failures, self._retry_seconds_max, self._random)
                logger.warning("heartbeat refused: %s", error)
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _digest(self, answer: Message) -> float:
        """How long to wait before the next heartbeat."""
        if self._is_leaving:
            if answer.should_shut_down:
                _resolve(self._let_go)
            return min(LEAVING_SECONDS, self._interval_seconds)
        if answer.is_caught_up and not (answer.is_fenced and self._is_ready):
            if not answer.is_fenced:
                _resolve(self._unfenced)
            self._eager_seconds = EAGER_SECONDS
            return self._interval_seconds
        pause = min(self._eager_seconds, self._interval_seconds)
        self._eager_seconds = 2 * pause
        return pause

    # Going

    async def leave(self, *, politely: bool) -> None:
        """Ends the heartbeats; politely: gives up leadership first, as far as others can take it over."""
        if self._living is None:
            return
        if politely and self._config.controlled_shutdown_enable and self._unfenced.done():
            self._is_leaving = True
            self.beat_now()
            await asyncio.wait((self._let_go,), timeout=CONTROLLED_SHUTDOWN_SECONDS_MAX)
            if not self._let_go.done():
                logger.warning("the controller did not let this broker go in time; stopping all the same")
        self._living.cancel()
        await asyncio.wait((self._living,))

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
            raise self._refusal(code)
        self._must_register = False

    async def _beat(self) -> Message:
        offline_dirs = tuple(self._offline_dirs)
        request = schema(*BROKER_HEARTBEAT).new(
            "BrokerHeartbeatRequest",
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._is_ready,
            want_shut_down=self._is_leaving,
            offline_log_dirs=offline_dirs,
        )
        try:
            async with asyncio.timeout(LEAVING_SILENCE_SECONDS_MAX if self._is_leaving else None):
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

    def _refusal(self, code: ErrorCode) -> KafkaError:
        reason = _REASONS.get(code, "the controller refused this broker's registration")
        return KafkaError(code, reason.format(node_id=self._config.node_id, cluster_id=self._cluster_id))


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
