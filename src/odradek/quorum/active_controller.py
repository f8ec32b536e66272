"""Runs the controller while this node leads the quorum, and fails its commands with NOT_CONTROLLER otherwise.

Commands run one after the other: nothing awaits between a command and the append of its records. A command's response
is returned once its records are committed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from odradek.base.background import Fault, start_task
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Executor, Pool, Random
from odradek.config.node_config import NodeConfig
from odradek.core.controller.activation import abort_unfinished, first_records
from odradek.core.controller.commands import RECORDS_MAX, ControllerResult
from odradek.core.controller.controller import Controller
from odradek.core.metadata.batches import build_metadata_batch
from odradek.core.metadata.features import METADATA_VERSION
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import FeatureLevelRecord, MetadataRecord
from odradek.quorum.driver import QuorumDriver
from odradek.quorum.loader import MetadataLoader, PendingChange
from odradek.quorum.ports import BuildErrorResponse, Execute
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

T = TypeVar("T")
PENDING_MAX: Final = 10_000
FAULT_REPEATS_SECONDS: Final = 300.0
"""A second unexpected error within this time stops the node."""
NO_OFFSET: Final = -1


class ActiveController:
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
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._config: Final = config
        self._cluster_id: Final = cluster_id
        self._driver: Final = driver
        self._loader: Final = loader
        self._clock: Final = clock
        self._random: Final = random
        self._executor: Final = executor
        self._read_bootstrap: Final = read_bootstrap
        self._on_failure: Final = on_failure
        self._last_fault_at: float | None = None
        self._controller: Controller | None = None
        self._epoch = -1
        self._last_offset = NO_OFFSET
        """Offset of the last record that the controller wrote."""
        self._committed_end = 0
        self._pending: Final[deque[tuple[int, asyncio.Future[None]]]] = deque()
        """Offsets whose commit a command waits for, in increasing order."""
        self._failure: OSError | None = None
        self._activating: asyncio.Task[None] | None = None
        self._activation_listeners: Final[list[Callable[[Controller | None], None]]] = []

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    def on_activation(self, listener: Callable[[Controller | None], None]) -> None:
        """Calls `listener` with the controller when it becomes active on this node, and with None when it resigns."""
        self._activation_listeners.append(listener)

    async def stop(self) -> None:
        if self._activating is not None:
            self._activating.cancel()
            await asyncio.wait([self._activating])
        self._resign()

    # Commands

    async def handle(
        self, request: Message, messages: Schema, execute: Execute, build_error_response: BuildErrorResponse
    ) -> Message:
        """Runs the command of a request. Returns its response once everything that it is based on is committed.

        The error of an error response is that of the command, or NOT_CONTROLLER while another controller is active.
        """
        try:
            return await self._execute(partial(execute, request, messages))
        except KafkaError as error:
            return build_error_response(request, messages, error)

    async def _execute(self, command: Callable[[Controller], ControllerResult[T]]) -> T:
        controller = await self.wait_for_activation()
        if len(self._pending) >= PENDING_MAX:
            raise KafkaError(ErrorCode.request_timed_out)
        try:
            response = self._run(controller, command).response
        except KafkaError:
            # An error may be based on uncommitted records too, such as TOPIC_ALREADY_EXISTS.
            await self._wait_for_commit(self._last_offset)
            raise
        await self._wait_for_commit(self._last_offset)
        return response

    async def execute_own(self, command: Callable[[Controller], ControllerResult[T]]) -> T:
        """Runs a command of the controller's own, such as fencing a broker. Raises KafkaError."""
        if self._controller is None:
            raise self._error()
        result = self._run(self._controller, command)
        # A command without records sends no response, so it has nothing to wait for.
        if result.records or result.kraft_version is not None:
            await self._wait_for_commit(self._last_offset)
        return result.response

    def _run(self, controller: Controller, command: Callable[[Controller], ControllerResult[T]]) -> ControllerResult[T]:
        controller.note_log_end(self._driver.log_end_offset)
        result = command(controller)
        self._write(result)
        return result

    async def wait_for_activation(self) -> Controller:
        """Returns the controller once it is active. Raises KafkaError if it is not and does not become active."""
        while self._controller is None:
            if self._activating is None:
                raise self._error()
            await asyncio.wait([self._activating])
        return self._controller

    def on_fault(self, what: str, error: BaseException) -> None:
        """An unexpected error in the work of the active controller: it resigns, so that another one takes over.

        If that happens again soon, this node is not able to be the active controller, and stops.
        """
        logger.error("Unexpected error in %s: epoch=%d", what, self._epoch, exc_info=error)
        last, self._last_fault_at = self._last_fault_at, self._clock.monotonic()
        if last is not None and self._last_fault_at - last < FAULT_REPEATS_SECONDS:
            self._on_failure(Fault(what, error))
        elif self._epoch >= 0:
            logger.error("Resigning as active controller: epoch=%d, reason=%s", self._epoch, Fault(what, error))
            self._driver.resign(self._epoch)

    # Records

    def _write(self, result: ControllerResult[Any]) -> None:
        if result.records:
            self._append(result.records, is_atomic=result.is_atomic)
        if result.kraft_version is not None:
            self._raise_kraft_version(result.kraft_version)

    def _append(self, records: Sequence[MetadataRecord], *, is_atomic: bool = True) -> None:
        """Appends atomic records as one batch, and others as several if they are too many for one."""
        size = len(records) if is_atomic else RECORDS_MAX
        for start in range(0, len(records), size):
            self._append_batch(records[start : start + size])

    def _append_batch(self, records: Sequence[MetadataRecord]) -> None:
        # Captured before the append: a disk error during it makes this controller resign.
        controller, epoch = self._controller, self._epoch
        assert controller is not None
        now_ms = self._clock.wall_ms()
        metadata_version = controller.image.features.metadata_version or _metadata_version_in(records)
        data = build_metadata_batch(records, metadata_version=metadata_version, timestamp_ms=now_ms)
        first_offset = self._driver.append(epoch, len(records), data)
        assert first_offset > controller.image.offset, "the log must not overlap with what the controller has applied"
        self._last_offset = first_offset + len(records) - 1
        try:
            image, delta = controller.replay(records, offset=self._last_offset, epoch=epoch, timestamp_ms=now_ms)
        except Exception:
            # The log now contains records that this controller has not applied: it must not run another command.
            self._driver.resign(epoch)
            raise
        self._loader.expect(PendingChange(first_offset, len(data), image, delta))

    def _raise_kraft_version(self, level: int) -> None:
        controller = self._controller
        assert controller is not None
        if level <= controller.image.features.kraft_version:
            return
        self._last_offset = self._driver.raise_kraft_version(self._epoch, level)
        controller.note_kraft_version(level)

    async def _wait_for_commit(self, offset: int) -> None:
        """Raises KafkaError if this node loses leadership first."""
        if offset >= self._committed_end:
            if self._controller is None:
                # The append failed, and the controller resigned before this command started to wait.
                raise self._error()
            committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._pending.append((offset, committed))
            await committed

    # QuorumListener

    def on_commit(self, end_offset: int) -> None:
        assert end_offset >= self._committed_end, f"committed end {self._committed_end} became {end_offset}"
        self._committed_end = end_offset
        while self._pending and self._pending[0][0] < end_offset:
            _, committed = self._pending.popleft()
            if not committed.done():
                committed.set_result(None)

    def on_snapshot_loaded(self, image: ClusterImage) -> None:
        """Only a follower loads a snapshot; it has no active controller."""

    def on_leadership(self, epoch: int) -> None:
        self._epoch = epoch
        self._activating = start_task("activation of the controller", self._activate(epoch), self.on_fault)

    def on_leadership_lost(self, epoch: int) -> None:
        if self._activating is not None:
            self._activating.cancel()
            self._activating = None
        self._resign()

    def on_failure(self, error: Exception) -> None:
        self._failure = error if isinstance(error, OSError) else None
        self.on_leadership_lost(self._epoch)

    def _error(self) -> KafkaError:
        """Why this node's controller runs no commands."""
        if self._failure is not None:
            return KafkaError(ErrorCode.kafka_storage_error, str(self._failure))
        return KafkaError(ErrorCode.not_controller)

    def _resign(self) -> None:
        was_active = self._controller is not None
        self._controller = None
        self._epoch = -1
        # Whether these records will be committed depends on the next leader.
        while self._pending:
            _, committed = self._pending.popleft()
            if not committed.done():
                committed.set_exception(self._error())
        if was_active:
            self._notify(None)

    # Activation

    async def _activate(self, epoch: int) -> None:
        """Everything in the log is committed now: the controller starts once all of it is applied to the image."""
        try:
            await self._loader.wait_until_applied(self._committed_end - 1)
            image = self._loader.image
            # Building its indexes takes time in proportion to the size of the cluster.
            controller = await self._executor.run(
                lambda: Controller(self._config, self._cluster_id, self._random, image), pool=Pool.CONTROLLER
            )
            is_inside_transaction = self._loader.is_inside_transaction
            bootstrap: Sequence[MetadataRecord] = ()
            if image.features.metadata_version == 0:
                bootstrap = await self._executor.run(self._read_bootstrap, pool=Pool.CONTROLLER)
            if self._epoch != epoch:
                return
            self._controller = controller
            self._last_offset = image.offset
            if is_inside_transaction:
                self._append(abort_unfinished())
            if bootstrap:
                self._append(first_records(bootstrap, self._config.topic_defaults.min_insync_replicas))
            controller.start_sessions(self._clock.monotonic())
            logger.info("Became active controller: epoch=%d, metadataOffset=%d", epoch, image.offset)
            self._notify(controller)
        except KafkaError as error:
            # This node lost leadership during activation.
            logger.info("Controller activation cancelled: epoch=%d, reason=%s", epoch, error)
            self._resign()
        finally:
            if self._epoch in (epoch, -1):
                self._activating = None

    def _notify(self, controller: Controller | None) -> None:
        for listener in self._activation_listeners:
            listener(controller)


def _metadata_version_in(records: Sequence[MetadataRecord]) -> int:
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return 0
