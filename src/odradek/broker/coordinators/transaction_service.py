"""The transaction coordinators of this broker: the runtime of `__transaction_state`, and the operations of handlers."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.java_hash import partition_of
from odradek.base.ports import Clock, Random, Workers
from odradek.broker.coordinators.add_partitions_sender import AddPartitionsSender
from odradek.broker.coordinators.broker_queues import BrokerPeers
from odradek.broker.coordinators.marker_sender import MarkerSender, WriteHere
from odradek.broker.coordinators.runtime import CoordinatorRuntime
from odradek.broker.coordinators.shard import RuntimeSettings
from odradek.broker.producer_ids import ProducerIds
from odradek.config.node_config import NodeConfig
from odradek.core.groups.regular_expressions import matcher
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.topic_names import TRANSACTION_STATE
from odradek.core.transactions.command_checks import check
from odradek.core.transactions.commands import Command, DescribedTransaction, ListedTransaction, Markers, Response
from odradek.core.transactions.coordinator import TransactionCoordinator
from odradek.core.transactions.coordinator_result import CoordinatorResult, WriteEvent
from odradek.core.transactions.descriptions import describe, list_transactions, unknown_states
from odradek.core.transactions.error_responses import error_response
from odradek.core.transactions.records import TransactionRecord, UnknownKind, decode, encode_key, encode_value
from odradek.core.transactions.settings import TransactionSettings
from odradek.server.security import UNSECURED_PEER, PeerSecurity

TRANSACTION_VERSION: Final = "transaction.version"

SendMarkers = Callable[["TransactionShard", Markers], None]


class TransactionShard(TransactionCoordinator):
    """The coordinator of one partition, which also sends the markers of its results."""

    def __init__(
        self,
        partition: int,
        settings: TransactionSettings,
        *,
        coordinator_epoch: int,
        transaction_version: Callable[[], int],
        new_producer_id: Callable[[], int],
        send: SendMarkers,
    ) -> None:
        super().__init__(
            settings,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            new_producer_id=new_producer_id,
        )
        self.partition: Final = partition
        self._send: Final = send
        self._completions: Final[dict[str, asyncio.Future[None]]] = {}

    def completion_of(self, transactional_id: str) -> "asyncio.Future[None] | None":
        """Done when the pending transition of the transaction is complete. None: there is none."""
        if not self._has_pending_transition(transactional_id):
            return None
        found = self._completions.get(transactional_id)
        if found is None:
            found = self._completions[transactional_id] = asyncio.get_running_loop().create_future()
        return found

    def on_written(self, event: WriteEvent, error: ErrorCode, now_ms: int) -> CoordinatorResult:
        result = self._send_all(super().on_written(event, error, now_ms))
        if self._completions:
            self._complete_transitions()
        return result

    def on_unloaded(self, now_ms: int) -> CoordinatorResult:
        for completion in self._completions.values():
            completion.set_result(None)
        self._completions.clear()
        return super().on_unloaded(now_ms)

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult]:
        return [self._send_all(result) for result in super().on_loaded(now_ms)]

    def _complete_transitions(self) -> None:
        """There are few: producers that start a transaction while the end of the last one is pending."""
        for transactional_id in [one for one in self._completions if not self._has_pending_transition(one)]:
            self._completions.pop(transactional_id).set_result(None)

    def _has_pending_transition(self, transactional_id: str) -> bool:
        transaction = self.get(transactional_id)
        return transaction is not None and transaction.has_pending_transition

    def _send_all(self, result: CoordinatorResult) -> CoordinatorResult:
        for markers in result.markers:
            self._send(self, markers)
        return result


class TransactionKind:
    topic: Final = TRANSACTION_STATE

    def __init__(
        self,
        settings: TransactionSettings,
        runtime_settings: RuntimeSettings,
        *,
        transaction_version: Callable[[], int],
        new_producer_id: Callable[[], int],
        send: SendMarkers,
    ) -> None:
        self._settings: Final = settings
        self._transaction_version: Final = transaction_version
        self._new_producer_id: Final = new_producer_id
        self._send: Final = send
        self.settings: Final = runtime_settings

    def new_shard(self, partition: int, leader_epoch: int) -> TransactionShard:
        return TransactionShard(
            partition,
            self._settings,
            coordinator_epoch=leader_epoch,
            transaction_version=self._transaction_version,
            new_producer_id=self._new_producer_id,
            send=self._send,
        )

    def error_response(self, command: Command, error: ErrorCode) -> Response:
        return error_response(command, error)

    def is_independent(self, command: Command) -> bool:
        """Every transition depends on the one before."""
        return False

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return encode_key(record), encode_value(record)

    def decode(self, key: bytes | None, value: bytes | None) -> TransactionRecord | None:
        try:
            return decode(key, value)
        except UnknownKind:
            return None


class TransactionService:
    """Implements `TransactionsPort`."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        image: Callable[[], ClusterImage],
        clock: Clock,
        random: Random,
        workers: Workers,
        producer_ids: ProducerIds,
        write_here: WriteHere,
        on_disk_failure: Callable[[str, OSError], None],
        peer_security: PeerSecurity = UNSECURED_PEER,
    ) -> None:
        self._image: Final = image
        self._clock: Final = clock
        self._settings: Final = TransactionSettings.of(config)
        self._producer_ids: Final = producer_ids
        self._default_partitions: Final = config.effective_number("transaction.state.log.num.partitions")
        # Responses of one connection keep the order of requests: verification must not wait for the markers of others.
        self._marker_peers: Final = BrokerPeers(config, image, peer_security)
        self._verification_peers: Final = BrokerPeers(config, image, peer_security)
        self._marker_sender: Final = MarkerSender(
            config.node_id, self._marker_peers, image=image, random=random, write_here=write_here
        )
        self._add_partitions: Final = AddPartitionsSender(
            config.node_id, self._verification_peers, image=image, partition_of=self.partition_of, submit=self.submit
        )
        kind = TransactionKind(
            self._settings,
            RuntimeSettings(config.effective_number("request.timeout.ms")),
            transaction_version=self.transaction_version,
            new_producer_id=producer_ids.take,
            send=self._send_markers,
        )
        self.runtime: Final = CoordinatorRuntime[Command, Response, TransactionRecord](
            kind, clock=clock, workers=workers, on_disk_failure=on_disk_failure
        )

    def transaction_version(self) -> int:
        return self._image().features.level(TRANSACTION_VERSION)

    def partition_of(self, transactional_id: str) -> int:
        topic = self._image().topics_by_name.get(TRANSACTION_STATE)
        return partition_of(transactional_id, self._default_partitions if topic is None else len(topic.partitions))

    def submit(self, command: Command) -> DeferredResponse:
        index = self.partition_of(command.transactional_id)
        context = self.runtime.context(index)
        if context is None or not context.is_active:
            # An invalid command gets the same response from every broker.
            try:
                check(command, self._settings, self.transaction_version())
            except KafkaError as error:
                return DeferredResponse.from_result(error_response(command, error.code))
        return self.runtime.coordinator(index).submit(command)

    async def stock_up(self) -> None:
        await self._producer_ids.stock_up()

    def add_or_verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> DeferredResponse:
        return self._add_partitions.add_or_verify(transactional_id, producer_id, producer_epoch, partitions, adds=adds)

    def completion_of(self, transactional_id: str) -> "asyncio.Future[None] | None":
        context = self.runtime.context(self.partition_of(transactional_id))
        is_active = context is not None and context.is_active
        return _as_shard(context.shard).completion_of(transactional_id) if context is not None and is_active else None

    def describe(self, transactional_ids: Iterable[str]) -> list[DescribedTransaction]:
        return [self._describe(one) for one in transactional_ids]

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        if not transactional_id:
            return DescribedTransaction(transactional_id, ErrorCode.invalid_request)
        context = self.runtime.context(self.partition_of(transactional_id))
        if context is None:
            return DescribedTransaction(transactional_id, ErrorCode.not_coordinator)
        if not context.is_active:
            return DescribedTransaction(transactional_id, context.unavailable)
        return describe(_as_shard(context.shard), transactional_id)

    def list(
        self,
        producer_ids: Collection[int],
        states: Collection[str],
        duration_ms: int,
        pattern: str | None,
    ) -> tuple[ErrorCode, Sequence[str], Sequence[ListedTransaction]]:
        matches = matcher(pattern) if pattern else None
        listed: list[ListedTransaction] = []
        for context in self.runtime.contexts():
            if context.is_active:
                listed += list_transactions(
                    _as_shard(context.shard),
                    self._clock.wall_ms(),
                    producer_ids=producer_ids,
                    states=states,
                    duration_ms=duration_ms,
                    matches=matches,
                )
            elif context.unavailable is ErrorCode.coordinator_load_in_progress:
                return context.unavailable, (), ()
        return ErrorCode.none, unknown_states(states), listed

    def stop(self) -> None:
        self.runtime.stop()
        self._marker_sender.stop()
        self._add_partitions.stop()
        self._marker_peers.close()
        self._verification_peers.close()

    def _send_markers(self, shard: TransactionShard, markers: Markers) -> None:
        def is_current() -> bool:
            context = self.runtime.context(shard.partition)
            return context is not None and context.shard is shard

        def on_written(partitions: frozenset[TopicPartition]) -> None:
            context = self.runtime.context(shard.partition)
            if context is not None and context.shard is shard:
                context.schedule(lambda _, now_ms: shard.on_markers_written(markers, partitions, now_ms))

        self._marker_sender.send(markers, is_current, on_written)


def _as_shard(shard: object) -> TransactionShard:
    assert isinstance(shard, TransactionShard)
    return shard
