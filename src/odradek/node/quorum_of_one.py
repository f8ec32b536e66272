"""The driver of a metadata quorum that has this node as its only voter.

It serialises commands, appends their records, syncs them off the loop (one sync for all that came meanwhile), lets
every subscriber take up the new image, and only then answers. Nothing outside knows that the quorum is so small.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Disk, Executor, Random
from odradek.config.listeners import SECURITY_PROTOCOLS, Listener
from odradek.config.node_config import NodeConfig
from odradek.controller.activation import abort_unfinished, first_records
from odradek.controller.controller import Controller
from odradek.handlers.controller.apis import load_handler
from odradek.metadata.apply import ImageDelta
from odradek.metadata.commands import ControllerRegistration
from odradek.metadata.decision import RECORDS_MAX, Decision
from odradek.metadata.features import (
    IV_3_7_CONTROLLER_REGISTRATION,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    default_levels,
)
from odradek.metadata.image import ClusterImage
from odradek.metadata.records import Endpoint, FeatureLevelRecord, MetadataRecord, SupportedFeature
from odradek.metadata.snapshot import BOOTSTRAP_FILE, decode_snapshot
from odradek.node.format import voter_endpoint
from odradek.node.metadata_log import MetadataLog
from odradek.protocol.schemas import schema
from odradek.raft.quorum_state import QuorumState
from odradek.raft.snapshot_policy import SnapshotPolicy
from odradek.raft.voters import UnsuitableQuorum, check_only_voter, first_messages, standalone
from odradek.records.batch import CorruptBatch
from odradek.records.control import VoterEndpoint
from odradek.records.record import InvalidRecords

logger = logging.getLogger(__name__)

Subscriber = Callable[[ClusterImage, ImageDelta], Awaitable[None]]

_LANE: Final = "metadata"
_PENDING_MAX: Final = 10_000


class QuorumError(Exception):
    """The quorum cannot start; the message is one line that says why."""


@dataclass(slots=True)
class _Step:
    """One appended batch on its way to being committed."""

    image: ClusterImage
    delta: ImageDelta
    done: asyncio.Future[None]


class QuorumOfOne:
    """`ControllerPort` of a node that is its own quorum."""

    def __init__(
        self,
        config: NodeConfig,
        log: MetadataLog,
        *,
        cluster_id: str,
        directory_id: UUID | None,
        disk: Disk,
        clock: Clock,
        random: Random,
        executor: Executor,
    ) -> None:
        """Not for callers: see `open`."""
        self._config = config
        self._log = log
        self._directory_id = directory_id
        self._disk = disk
        self._clock = clock
        self._random = random
        self._executor = executor
        self._quorum = log.quorum
        self._epoch = 0
        self._controller = Controller(config, cluster_id, random, log.image)
        self._committed = log.image
        self._subscribers: list[Subscriber] = []
        self._pending: deque[_Step] = deque()
        self._last: asyncio.Future[None] | None = None
        """Done once everything decided so far is committed and taken up."""
        self._committing: asyncio.Task[None] | None = None
        self._policy = SnapshotPolicy(
            max_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            bytes_since=log.bytes_since_snapshot,
        )
        self._maintenance: asyncio.Task[None] | None = None
        self._may_append = asyncio.Event()
        self._may_append.set()
        self.failed: Final[asyncio.Future[OSError]] = asyncio.get_running_loop().create_future()
        """Done once the disk of the metadata log has failed: the node cannot go on."""

    @classmethod
    async def open(
        cls,
        config: NodeConfig,
        *,
        cluster_id: str,
        directory_id: UUID | None,
        disk: Disk,
        clock: Clock,
        random: Random,
        executor: Executor,
        had_clean_shutdown: bool = False,
    ) -> "QuorumOfOne":
        """Reads what is on disk. `directory_id` is that of the metadata log's dir.

        Raises QuorumError when this node is not the only voter or the log cannot be read, OSError when the disk fails.
        """
        try:
            log = await executor.run(
                lambda: MetadataLog.open(disk, config, now_ms=clock.wall_ms(), had_clean_shutdown=had_clean_shutdown),
                lane=_LANE,
            )
            voter_ids = tuple(voter.node_id for voter in config.controller_quorum_voters)
            check_only_voter(log.quorum, config.node_id, directory_id, voter_ids)
        except UnsuitableQuorum as error:
            raise QuorumError(str(error)) from error
        except (ValueError, CorruptBatch, InvalidRecords) as error:
            raise QuorumError(f"the metadata log in {config.metadata_log_dir} cannot be read: {error}") from error
        return cls(
            config,
            log,
            cluster_id=cluster_id,
            directory_id=directory_id,
            disk=disk,
            clock=clock,
            random=random,
            executor=executor,
        )

    @property
    def image(self) -> ClusterImage:
        """What is committed and taken up by the subscribers."""
        return self._committed

    @property
    def epoch(self) -> int:
        return self._epoch

    def subscribe(self, subscriber: Subscriber) -> None:
        """Called with every committed change, in order, one at a time. It must not wait for `handle`."""
        self._subscribers.append(subscriber)

    async def activate(self) -> None:
        """Becomes the leader of a new epoch, and the controller. What `handle` needs is then there."""
        log, node_id = self._log, self._config.node_id
        messages, quorum = first_messages(
            self._quorum, node_id, self._voter_endpoints(), log_is_empty=log.end_offset == 0
        )
        now_ms = self._clock.wall_ms()

        def begin_epoch() -> int:
            epoch = log.last_epoch + 1
            log.write_quorum_state(QuorumState(leader_id=node_id, leader_epoch=epoch), quorum, (node_id,))
            log.append_control(messages, epoch=epoch, now_ms=now_ms)
            return epoch

        self._epoch = await self._executor.run(begin_epoch, lane=_LANE)
        self._quorum = quorum
        self._replay((), now_ms)
        if log.ends_inside_transaction:
            self._append(abort_unfinished())
        if self._controller.image.features.metadata_version == 0:
            bootstrap = await self._executor.run(self._read_bootstrap)
            self._append(first_records(bootstrap, self._config.topic_defaults.min_insync_replicas))
        self._controller.begin_sessions(self._clock.monotonic())
        if self._controller.image.features.metadata_version >= IV_3_7_CONTROLLER_REGISTRATION:
            self._append(self._registration().records)
        await self._settled()
        logger.info("controller of epoch %d, metadata at offset %d", self._epoch, self._committed.offset)

    def _registration(self) -> Decision[None]:
        return self._controller.register_controller(
            ControllerRegistration(
                controller_id=self._config.node_id,
                incarnation_id=UUID(bytes=self._random.randbytes(16), version=4),
                endpoints=tuple(map(_endpoint, self._config.advertised_controller_listeners)),
                features=supported_features(),
            )
        )

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        messages = schema(api_key, version)
        handler = load_handler(api_key)
        while not self._may_append.is_set():
            await self._may_append.wait()
        if self.failed.done():
            return handler.refuse(request, messages, _storage_error(self.failed.result()))
        if len(self._pending) >= _PENDING_MAX:
            return handler.refuse(request, messages, KafkaError(ErrorCode.request_timed_out))
        response, refusal = None, None
        try:
            # From here to the records' append nothing waits: decisions follow each other one by one.
            decision = handler.handle(request, messages, self._controller, self._clock.monotonic())
            if decision.records:
                self._append(decision.records, is_atomic=decision.is_atomic)
            if decision.kraft_version is not None:
                self._upgrade_quorum(decision.kraft_version)
            response = decision.response
        except KafkaError as error:
            refusal = error
        try:
            # Also a refusal may rest on decisions that are not committed yet: it is not heard of before them.
            await self._settled()
        except KafkaError as error:
            refusal = error
        return response if refusal is None else handler.refuse(request, messages, refusal)

    async def maintain(self) -> None:
        """To be called now and then: snapshots that time has made due, and the removal of old ones."""
        self._begin_maintenance()
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])

    async def close(self) -> None:
        """Waits for what is on its way, and closes the log."""
        if self._last is not None:
            await asyncio.wait([self._last])
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])
        await self._executor.run(self._log.close, lane=_LANE)

    # The way of a decision

    def _append(self, records: Sequence[MetadataRecord], *, is_atomic: bool = True) -> _Step:
        """In one batch, or in several where the decision need not take effect as a whole."""
        size = len(records) if is_atomic else RECORDS_MAX
        steps = [self._append_batch(records[start : start + size]) for start in range(0, len(records), size)]
        return steps[-1]

    def _append_batch(self, records: Sequence[MetadataRecord]) -> _Step:
        now_ms = self._clock.wall_ms()
        metadata_version = self._controller.image.features.metadata_version or _metadata_version_in(records)
        size = self._written(
            lambda: self._log.append(records, epoch=self._epoch, metadata_version=metadata_version, now_ms=now_ms)
        )
        self._policy.note(size, now_ms)
        return self._replay(records, now_ms)

    def _upgrade_quorum(self, kraft_version: int) -> None:
        """From voters fixed by configuration to one that is known by its directory, and could be joined by others."""
        if self._directory_id is None or kraft_version <= self._quorum.kraft_version:
            return
        self._quorum = standalone(self._config.node_id, self._directory_id, self._voter_endpoints())
        now_ms = self._clock.wall_ms()
        messages = self._quorum.messages()
        self._written(lambda: self._log.append_control(messages, epoch=self._epoch, now_ms=now_ms))
        self._controller.note_kraft_version(self._quorum.kraft_version)
        self._replay((), now_ms)

    def _written(self, append: Callable[[], int]) -> int:
        try:
            return append()
        except OSError as error:
            self._fail(error)
            raise _storage_error(error) from error

    def _replay(self, records: Sequence[MetadataRecord], now_ms: int) -> _Step:
        image, delta = self._controller.replay(
            records, offset=self._log.end_offset - 1, epoch=self._epoch, timestamp_ms=now_ms
        )
        step = _Step(image, delta, asyncio.get_running_loop().create_future())
        # Nobody may be waiting for it.
        step.done.add_done_callback(_retrieve)
        self._pending.append(step)
        self._last = step.done
        if self._committing is None:
            self._committing = asyncio.ensure_future(self._commit())
        return step

    async def _commit(self) -> None:
        """Syncs and publishes what is pending until nothing is left."""
        try:
            while self._pending:
                count = len(self._pending)
                try:
                    await self._executor.run(self._log.flush, lane=_LANE)
                except OSError as error:
                    self._fail(error)
                    return
                for _ in range(count):
                    await self._publish(self._pending.popleft())
                if self._policy.bytes_since >= self._policy.max_bytes:
                    self._begin_maintenance()
        finally:
            self._committing = None

    async def _publish(self, step: _Step) -> None:
        self._committed = step.image
        for subscriber in self._subscribers:
            try:
                await subscriber(step.image, step.delta)
            except Exception:
                # What is committed stays so, whoever stumbles over it; the others must hear of it all the same.
                logger.exception("a change of the metadata at offset %d was not taken up", step.image.offset)
        step.done.set_result(None)

    async def _settled(self) -> None:
        """Returns once everything decided so far is committed and taken up. Raises KafkaError if it will not be."""
        if self._last is not None:
            await asyncio.shield(self._last)

    def _fail(self, error: OSError) -> None:
        """After a failed sync nobody knows what the disk holds: nothing more is acknowledged."""
        logger.error("the metadata log cannot be written: %s", error)
        if not self.failed.done():
            self.failed.set_result(error)
        while self._pending:
            step = self._pending.popleft()
            step.done.set_exception(_storage_error(error))

    # Snapshots

    def _begin_maintenance(self) -> None:
        if self._maintenance is None and not self.failed.done():
            self._maintenance = asyncio.ensure_future(self._maintain())

    async def _maintain(self) -> None:
        now_ms = self._clock.wall_ms()
        try:
            if self._policy.is_due(now_ms):
                image, quorum = self._committed, self._quorum
                self._policy.taken()
                await self._executor.run(lambda: self._log.write_snapshot(image, quorum, now_ms))
                logger.info("metadata snapshot at offset %d", image.offset)
            # The log has one writer at a time, and removing what is old is a kind of writing.
            self._may_append.clear()
            await self._executor.run(lambda: self._log.clean(self._config, now_ms), lane=_LANE)
        except OSError as error:
            self._fail(error)
        finally:
            self._may_append.set()
            self._maintenance = None

    def _voter_endpoints(self) -> tuple[VoterEndpoint, ...]:
        return tuple(map(voter_endpoint, self._config.advertised_controller_listeners))

    def _read_bootstrap(self) -> Sequence[MetadataRecord]:
        path = f"{self._config.metadata_log_dir}/{BOOTSTRAP_FILE}"
        if self._disk.exists(path):
            return decode_snapshot(self._disk.read_bytes(path)).records
        return [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in default_levels(LATEST_METADATA_VERSION).items()
            if name != KRAFT_VERSION
        ]


def supported_features() -> tuple[SupportedFeature, ...]:
    """As brokers and controllers of this release register them."""
    return tuple(
        SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
    )


def _storage_error(error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.kafka_storage_error, str(error))


def _metadata_version_in(records: Sequence[MetadataRecord]) -> int:
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return 0


def _endpoint(listener: Listener) -> Endpoint:
    return Endpoint(
        name=listener.name,
        host=listener.host or "localhost",
        port=listener.port,
        security_protocol=SECURITY_PROTOCOLS.index(listener.security_protocol),
    )


def _retrieve(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
