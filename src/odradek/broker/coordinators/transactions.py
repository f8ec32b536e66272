"""The transaction coordinators of this broker: `__transaction_state`, and what handlers may ask of it."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.java_hash import partition_of
from odradek.base.ports import Clock, Executor, Random
from odradek.broker.coordinators.broker_lanes import BrokerPeers
from odradek.broker.coordinators.joining import Errors, Joining
from odradek.broker.coordinators.machine import HostSettings
from odradek.broker.coordinators.markers import MarkerSender, WriteHere
from odradek.broker.coordinators.registry import Coordinators
from odradek.broker.producer_ids import ProducerIds
from odradek.config.node_config import NodeConfig
from odradek.core.groups.regular_expressions import matcher
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.topic_names import TRANSACTION_STATE
from odradek.core.transactions.checks import check
from odradek.core.transactions.commands import Answer, Command, DescribedTransaction, ListedTransaction, Markers
from odradek.core.transactions.coordinator import TransactionCoordinator
from odradek.core.transactions.outcome import Outcome, Written
from odradek.core.transactions.records import TransactionRecord, UnknownKind, decode, encode_key, encode_value
from odradek.core.transactions.refusals import refuse
from odradek.core.transactions.settings import TransactionSettings
from odradek.core.transactions.views import describe, list_transactions, unknown_states

TRANSACTION_VERSION: Final = "transaction.version"

SendMarkers = Callable[["TransactionMachine", Markers], None]


class TransactionMachine(TransactionCoordinator):
    """The coordinator of one partition, whose markers are sent as soon as it wants them to be."""

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
        self._awaited: Final[dict[str, asyncio.Future[None]]] = {}

    def freed(self, transactional_id: str) -> "asyncio.Future[None] | None":
        """Done when nothing is under way for the transaction any more. None: nothing is."""
        if not self._is_busy(transactional_id):
            return None
        found = self._awaited.get(transactional_id)
        if found is None:
            found = self._awaited[transactional_id] = asyncio.get_running_loop().create_future()
        return found

    def written(self, written: Written, error: ErrorCode, now_ms: int) -> Outcome:
        outcome = self._sent(super().written(written, error, now_ms))
        if self._awaited:
            self._wake()
        return outcome

    def unload(self, now_ms: int) -> Outcome:
        for freed in self._awaited.values():
            freed.set_result(None)
        self._awaited.clear()
        return super().unload(now_ms)

    def loaded(self, now_ms: int) -> list[Outcome]:
        return [self._sent(outcome) for outcome in super().loaded(now_ms)]

    def _wake(self) -> None:
        """There are few: who comes while an end is under way, and only until it is over."""
        for transactional_id in [one for one in self._awaited if not self._is_busy(one)]:
            self._awaited.pop(transactional_id).set_result(None)

    def _is_busy(self, transactional_id: str) -> bool:
        transaction = self.get(transactional_id)
        return transaction is not None and transaction.is_busy

    def _sent(self, outcome: Outcome) -> Outcome:
        for markers in outcome.markers:
            self._send(self, markers)
        return outcome


class TransactionKind:
    topic: Final = TRANSACTION_STATE

    def __init__(
        self,
        settings: TransactionSettings,
        host_settings: HostSettings,
        *,
        transaction_version: Callable[[], int],
        new_producer_id: Callable[[], int],
        send: SendMarkers,
    ) -> None:
        self._settings: Final = settings
        self._transaction_version: Final = transaction_version
        self._new_producer_id: Final = new_producer_id
        self._send: Final = send
        self.settings: Final = host_settings

    def new_machine(self, partition: int, leader_epoch: int) -> TransactionMachine:
        return TransactionMachine(
            partition,
            self._settings,
            coordinator_epoch=leader_epoch,
            transaction_version=self._transaction_version,
            new_producer_id=self._new_producer_id,
            send=self._send,
        )

    def refuse(self, command: Command, error: ErrorCode) -> Answer:
        return refuse(command, error)

    def is_independent(self, command: Command) -> bool:
        """What comes next in a transaction depends on what came before."""
        return False

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return encode_key(record), encode_value(record)

    def decode(self, key: bytes | None, value: bytes | None) -> TransactionRecord | None:
        try:
            return decode(key, value)
        except UnknownKind:
            return None


class TransactionService:
    """As `TransactionsPort` of the handlers has it."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        image: Callable[[], ClusterImage],
        clock: Clock,
        random: Random,
        executor: Executor,
        producer_ids: ProducerIds,
        write_here: WriteHere,
        on_disk_failure: Callable[[str, OSError], None],
    ) -> None:
        self._image: Final = image
        self._clock: Final = clock
        self._settings: Final = TransactionSettings.of(config)
        self._producer_ids: Final = producer_ids
        self._default_partitions: Final = config.effective_number("transaction.state.log.num.partitions")
        # A connection's answers come in the order of its requests: who joins must not wait for what another's end does.
        self._ending_peers: Final = BrokerPeers(config, image)
        self._joining_peers: Final = BrokerPeers(config, image)
        self._markers: Final = MarkerSender(
            config.node_id, self._ending_peers, image=image, random=random, write_here=write_here
        )
        self._joining: Final = Joining(
            config.node_id, self._joining_peers, image=image, partition_of=self.partition_of, submit=self.submit
        )
        kind = TransactionKind(
            self._settings,
            HostSettings(config.effective_number("request.timeout.ms")),
            transaction_version=self.transaction_version,
            new_producer_id=producer_ids.take,
            send=self._send_markers,
        )
        self.coordinators: Final = Coordinators[Command, Answer, TransactionRecord](
            kind, clock=clock, executor=executor, on_disk_failure=on_disk_failure
        )

    def transaction_version(self) -> int:
        return self._image().features.level(TRANSACTION_VERSION)

    def partition_of(self, transactional_id: str) -> int:
        topic = self._image().topics_by_name.get(TRANSACTION_STATE)
        return partition_of(transactional_id, self._default_partitions if topic is None else len(topic.partitions))

    def submit(self, command: Command) -> DeferredResponse:
        host = self.coordinators.host(self.partition_of(command.transactional_id))
        if host is not None and host.is_active:
            return host.submit(command)
        # An invalid command gets the same response from every broker.
        try:
            check(command, self._settings, self.transaction_version())
        except KafkaError as error:
            return self.coordinators.refuse(command, error.code)
        return self.coordinators.refuse(command, ErrorCode.not_coordinator if host is None else host.refusal)

    async def stock_up(self) -> None:
        await self._producer_ids.stock_up()

    async def join(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        adds: bool,
    ) -> Errors:
        return await self._joining.ask(transactional_id, producer_id, producer_epoch, partitions, adds=adds)

    def freed(self, transactional_id: str) -> "asyncio.Future[None] | None":
        host = self.coordinators.host(self.partition_of(transactional_id))
        return _looked_at(host.machine).freed(transactional_id) if host is not None and host.is_active else None

    def describe(self, transactional_ids: Iterable[str]) -> list[DescribedTransaction]:
        return [self._describe(one) for one in transactional_ids]

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        if not transactional_id:
            return DescribedTransaction(transactional_id, ErrorCode.invalid_request)
        host = self.coordinators.host(self.partition_of(transactional_id))
        if host is None:
            return DescribedTransaction(transactional_id, ErrorCode.not_coordinator)
        if not host.is_active:
            return DescribedTransaction(transactional_id, host.refusal)
        return describe(_looked_at(host.machine), transactional_id)

    def list(
        self,
        producer_ids: Collection[int],
        states: Collection[str],
        duration_ms: int,
        pattern: str | None,
    ) -> tuple[ErrorCode, Sequence[str], Sequence[ListedTransaction]]:
        matches = matcher(pattern) if pattern else None
        listed: list[ListedTransaction] = []
        for host in self.coordinators.hosts():
            if host.is_active:
                listed += list_transactions(
                    _looked_at(host.machine),
                    self._clock.wall_ms(),
                    producer_ids=producer_ids,
                    states=states,
                    duration_ms=duration_ms,
                    matches=matches,
                )
            elif host.refusal is ErrorCode.coordinator_load_in_progress:
                return host.refusal, (), ()
        return ErrorCode.none, unknown_states(states), listed

    def stop(self) -> None:
        self.coordinators.stop()
        self._markers.stop()
        self._joining.stop()
        self._ending_peers.close()
        self._joining_peers.close()

    def _send_markers(self, machine: TransactionMachine, markers: Markers) -> None:
        def is_wanted() -> bool:
            host = self.coordinators.host(machine.partition)
            return host is not None and host.machine is machine

        def told(partitions: frozenset[TopicPartition]) -> None:
            host = self.coordinators.host(machine.partition)
            if host is not None and host.machine is machine:
                host.do(lambda _, now_ms: machine.marked(markers, partitions, now_ms))

        self._markers.send(markers, is_wanted, told)


def _looked_at(machine: object) -> TransactionMachine:
    assert isinstance(machine, TransactionMachine)
    return machine
