"""Runs a transaction coordinator on a list as its log; the test commits records, writes markers and advances the
time."""

from itertools import count

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators.loading_program import LoadedRecord, Window
from odradek.core.transactions.commands import (
    AddPartitions,
    Command,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
    Markers,
    ProducerIdentity,
    Response,
)
from odradek.core.transactions.coordinator import TransactionCoordinator
from odradek.core.transactions.coordinator_result import CoordinatorResult, WriteEvent
from odradek.core.transactions.records import decode, encode_key, encode_value
from odradek.core.transactions.settings import TransactionSettings
from odradek.records.batch import NO_PRODUCER_ID

Logged = tuple[bytes, bytes | None]


class TransactionHarness:
    def __init__(
        self,
        settings: TransactionSettings | None = None,
        *,
        log: list[Logged] | None = None,
        version: int = 2,
        epoch: int = 0,
        now_ms: int = 1_000_000,
        next_id: int = 1000,
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.version = version
        self.epoch = epoch
        self.now_ms = now_ms
        self.log = list(log or ())
        self.responses: dict[int, Response] = {}
        self.markers: list[Markers] = []
        self.failing: ErrorCode | None = None
        self.commits_at_once = True
        self.ids_at_hand = True
        self.next_id = next_id
        self._pending_writes: list[WriteEvent] = []
        self._tokens = count(1)
        self.coordinator = TransactionCoordinator(
            self.settings,
            coordinator_epoch=epoch,
            transaction_version=lambda: self.version,
            new_producer_id=self._new_producer_id,
        )
        # As a broker does, it skips records that a later record of their key replaces.
        window = Window()
        for offset, (key, value) in enumerate(self.log):
            window.add(LoadedRecord(offset, NO_PRODUCER_ID, key, value))
        for entry in window.drain():
            assert isinstance(entry, LoadedRecord) and entry.key is not None
            self.coordinator.replay(decode(entry.key, entry.value), entry.offset, now_ms)
        for result in self.coordinator.on_loaded(now_ms):
            self.take(result)

    def _new_producer_id(self) -> int:
        if not self.ids_at_hand:
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        self.next_id += 1
        return self.next_id - 1

    def failover(self) -> "TransactionHarness":
        return TransactionHarness(
            self.settings,
            log=self.log,
            version=self.version,
            epoch=self.epoch + 1,
            now_ms=self.now_ms,
            next_id=self.next_id,
        )

    # ---- commands

    def execute(self, command: Command) -> Response | None:
        token = next(self._tokens)
        self.take(self.coordinator.handle(command, token, self.now_ms))
        return self.responses.get(token)

    def init(
        self, name: str = "t", expected: ProducerIdentity | None = None, timeout_ms: int = 60_000
    ) -> InitProducerIdResponse:
        response = self.execute(InitProducerId(name, timeout_ms, expected))
        assert isinstance(response, InitProducerIdResponse)
        return response

    def add(self, producer: ProducerIdentity, *partitions: int, name: str = "t", version: int = 2) -> ErrorCode:
        chosen = frozenset(TopicPartition("data", index) for index in partitions)
        response = self.execute(AddPartitions(name, *producer, chosen, version))
        assert response is not None
        return response.error

    def end(
        self, producer: ProducerIdentity, *, commits: bool = True, name: str = "t", version: int = 2
    ) -> EndTransactionResponse:
        response = self.execute(EndTransaction(name, *producer, commits, version))
        assert isinstance(response, EndTransactionResponse)
        return response

    # ---- doing what is to be done

    def take(self, result: CoordinatorResult) -> None:
        if result.records and self.failing is None:
            self.log += [(encode_key(record), encode_value(record)) for record in result.records]
        for token, response in result.responses:
            assert token not in self.responses, f"{token} has two responses"
            self.responses[token] = response
        self.markers += result.markers
        if result.write_event is not None:
            self._pending_writes.append(result.write_event)
        if self.commits_at_once:
            self.commit()

    def commit(self, error: ErrorCode | None = None) -> None:
        pending, self._pending_writes = self._pending_writes, []
        for written in pending:
            code = error or self.failing or ErrorCode.none
            self.take(self.coordinator.on_written(written, code, self.now_ms))

    def mark(self, markers: Markers | None = None) -> Markers:
        """The partitions write the last markers."""
        last = markers or self.markers[-1]
        self.take(self.coordinator.on_markers_written(last, last.partitions, self.now_ms))
        return last

    def pass_time(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while (at_ms := self.coordinator.next_deadline_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            while (result := self.coordinator.expire_deadline(self.now_ms)) is not None:
                self.take(result)
        self.now_ms = end_ms

    def state(self, name: str = "t") -> str:
        transaction = self.coordinator.get(name)
        return "" if transaction is None else transaction.metadata.state.title
