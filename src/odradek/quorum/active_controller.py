"""Hosts the controller while this node leads the quorum, and refuses its requests while it does not.

Decisions follow each other one by one: between a command and the append of its records nothing waits. Their answers
wait until the records are committed, and for whoever is served by this very node, until its image has them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Executor, Random
from odradek.config.node_config import NodeConfig
from odradek.core.controller.activation import abort_unfinished, first_records
from odradek.core.controller.controller import Controller
from odradek.core.controller.decision import RECORDS_MAX, Decision
from odradek.core.metadata.batches import build_metadata_batch
from odradek.core.metadata.features import METADATA_VERSION
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import FeatureLevelRecord, MetadataRecord
from odradek.quorum.apis.commands.apis import load_handler
from odradek.quorum.driver import QuorumDriver
from odradek.quorum.loader import DecidedStep, MetadataLoader
from odradek.wire.schemas import schema

logger = logging.getLogger(__name__)

T = TypeVar("T")
PENDING_MAX: Final = 10_000
NO_OFFSET: Final = -1


class ActiveController:
    """`ControllerPort` of requests that this node's own broker forwards; `remote` is that of others."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        driver: QuorumDriver,
        loader: MetadataLoader,
        *,
        clock: Clock,
        random: Random,
        executor: Executor,
        read_bootstrap: Callable[[], Sequence[MetadataRecord]],
    ) -> None:
        self._config: Final = config
        self._cluster_id: Final = cluster_id
        self._driver: Final = driver
        self._loader: Final = loader
        self._clock: Final = clock
        self._random: Final = random
        self._executor: Final = executor
        self._read_bootstrap: Final = read_bootstrap
        self._controller: Controller | None = None
        self._epoch = -1
        self._last_offset = NO_OFFSET
        """Of what was decided last."""
        self._committed_end = 0
        self._pending: Final[deque[tuple[int, asyncio.Future[None]]]] = deque()
        """Who waits for the commit of which offset, in rising order."""
        self._failure: OSError | None = None
        self._activating: asyncio.Task[None] | None = None
        self._activation_listeners: Final[list[Callable[[Controller | None], None]]] = []
        self.remote: Final = _Remote(self)

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    def on_activation(self, told: Callable[[Controller | None], None]) -> None:
        """`told` hears of the controller that has become active here, and of None when it is none any more."""
        self._activation_listeners.append(told)

    async def stop(self) -> None:
        if self._activating is not None:
            self._activating.cancel()
            await asyncio.wait([self._activating])
        self._resign()

    # Requests

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        """Returns once the decision is committed and applied to the image that this node serves from."""
        response, offset = await self.decide(api_key, version, request)
        await self._loader.reached(offset)
        return response

    async def decide(self, api_key: int, version: int, request: Any) -> tuple[Any, int]:
        """The answer, once everything that it rests on is committed, and the offset of the last of that."""
        messages = schema(api_key, version)
        handler = load_handler(api_key)
        refusal: KafkaError | None = None
        response: Any = None
        committed = NO_OFFSET
        try:
            controller = await self._active()
            if len(self._pending) >= PENDING_MAX:
                raise KafkaError(ErrorCode.request_timed_out)
            try:
                controller.note_log_end(self._driver.log_end_offset)
                decision = handler.handle(request, messages, controller, self._clock.monotonic())
                self._write(decision)
                response = decision.response
            except KafkaError as error:
                refusal = error
            # Also a refusal may rest on decisions that are not committed yet: it is not heard of before them.
            offset = self._last_offset
            await self._committed(offset)
            committed = offset
        except KafkaError as error:
            refusal = error
        return (response if refusal is None else handler.refuse(request, messages, refusal)), committed

    async def run_command(self, command: Callable[[Controller], Decision[T]]) -> T:
        """One of the node's own, such as the end of a broker's session. Raises KafkaError."""
        controller = self._controller
        if controller is None:
            raise self._refusal()
        controller.note_log_end(self._driver.log_end_offset)
        decision = command(controller)
        self._write(decision)
        # Who finds nothing to do need not wait: nobody is told.
        if decision.records or decision.kraft_version is not None:
            await self._committed(self._last_offset)
        return decision.response

    async def _active(self) -> Controller:
        while self._controller is None:
            if self._activating is None:
                raise self._refusal()
            await asyncio.wait([self._activating])
        return self._controller

    # The way of a decision

    def _write(self, decision: Decision[Any]) -> None:
        if decision.records:
            self._append(decision.records, is_atomic=decision.is_atomic)
        if decision.kraft_version is not None:
            self._raise_kraft_version(decision.kraft_version)

    def _append(self, records: Sequence[MetadataRecord], *, is_atomic: bool = True) -> None:
        """In one batch, or in several where the decision need not take effect as a whole."""
        size = len(records) if is_atomic else RECORDS_MAX
        for start in range(0, len(records), size):
            self._append_batch(records[start : start + size])

    def _append_batch(self, records: Sequence[MetadataRecord]) -> None:
        controller = self._controller
        assert controller is not None
        now_ms = self._clock.wall_ms()
        metadata_version = controller.image.features.metadata_version or _metadata_version_in(records)
        data = build_metadata_batch(records, metadata_version=metadata_version, timestamp_ms=now_ms)
        first_offset = self._driver.offer(self._epoch, len(records), data)
        self._last_offset = first_offset + len(records) - 1
        try:
            image, delta = controller.replay(records, offset=self._last_offset, epoch=self._epoch, timestamp_ms=now_ms)
        except Exception:
            # The log says what this controller does not know of: it must not decide anything more.
            self._driver.resign(self._epoch)
            raise
        self._loader.expect(DecidedStep(first_offset, len(data), image, delta))

    def _raise_kraft_version(self, level: int) -> None:
        controller = self._controller
        assert controller is not None
        if level <= controller.image.features.kraft_version:
            return
        self._last_offset = self._driver.raise_kraft_version(self._epoch, level)
        controller.note_kraft_version(level)

    async def _committed(self, offset: int) -> None:
        """Raises KafkaError if this node ceases to lead before it is known."""
        if offset >= self._committed_end:
            if self._controller is None:
                # The append has ended it, and everybody was told who waited then.
                raise self._refusal()
            committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._pending.append((offset, committed))
            await committed

    # What the driver says

    def committed_up_to(self, end_offset: int) -> None:
        self._committed_end = end_offset
        while self._pending and self._pending[0][0] < end_offset:
            _, committed = self._pending.popleft()
            if not committed.done():
                committed.set_result(None)

    def snapshot_loaded(self, image: ClusterImage) -> None:
        """Only a follower loads one."""

    def became_controller(self, epoch: int) -> None:
        self._epoch = epoch
        self._activating = asyncio.ensure_future(self._activate(epoch))

    def lost_leadership(self, epoch: int) -> None:
        if self._activating is not None:
            self._activating.cancel()
            self._activating = None
        self._resign()

    def broke(self, error: Exception) -> None:
        self._failure = error if isinstance(error, OSError) else None
        self.lost_leadership(self._epoch)

    def _refusal(self) -> KafkaError:
        """What is said to whoever asks a node that is not the controller."""
        if self._failure is not None:
            return KafkaError(ErrorCode.kafka_storage_error, str(self._failure))
        return KafkaError(ErrorCode.not_controller)

    def _resign(self) -> None:
        was_active = self._controller is not None
        self._controller = None
        self._epoch = -1
        # Whether these will be committed is for the next leader to find out; nobody here can tell.
        while self._pending:
            _, committed = self._pending.popleft()
            if not committed.done():
                committed.set_exception(self._refusal())
        if was_active:
            self._tell(None)

    # Becoming active

    async def _activate(self, epoch: int) -> None:
        """Everything that was in the log is committed: with all of it taken up, decisions can be made."""
        try:
            await self._loader.reached(self._committed_end - 1)
            image = self._loader.image
            # Its indexes cost as much as the cluster is large.
            controller = await self._executor.run(
                lambda: Controller(self._config, self._cluster_id, self._random, image)
            )
            is_inside_transaction = self._loader.is_inside_transaction
            bootstrap: Sequence[MetadataRecord] = ()
            if image.features.metadata_version == 0:
                bootstrap = await self._executor.run(self._read_bootstrap)
            if self._epoch != epoch:
                return
            self._controller = controller
            self._last_offset = image.offset
            if is_inside_transaction:
                self._append(abort_unfinished())
            if bootstrap:
                self._append(first_records(bootstrap, self._config.topic_defaults.min_insync_replicas))
            controller.begin_sessions(self._clock.monotonic())
            logger.info("active controller of epoch %d, metadata at offset %d", epoch, image.offset)
            self._tell(controller)
        except KafkaError as error:
            # The leadership that it was to use is gone already.
            logger.info("did not become the active controller of epoch %d: %s", epoch, error)
            self._resign()
        except Exception:
            logger.exception("cannot be the active controller of epoch %d; leaves it to another node", epoch)
            self._driver.resign(epoch)
        finally:
            if self._epoch in (epoch, -1):
                self._activating = None

    def _tell(self, controller: Controller | None) -> None:
        for told in self._activation_listeners:
            told(controller)


class _Remote:
    """For brokers elsewhere: they have images of their own, which follow the log at their own pace."""

    def __init__(self, controller: ActiveController) -> None:
        self._controller: Final = controller

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        response, _ = await self._controller.decide(api_key, version, request)
        return response


def _metadata_version_in(records: Sequence[MetadataRecord]) -> int:
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return 0
