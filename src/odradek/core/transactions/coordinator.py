"""The transaction coordinator of one partition of `__transaction_state`: a state machine without I/O.

Its inputs are commands with a token each, records through `replay`, the fate of its own records through `on_written`,
the partitions whose leaders have written markers, and the time when `next_deadline_ms` has come. Its output is a
`CoordinatorResult`. It reads no clock and never waits.

The coordinator's epoch is the leader epoch of its partition. `new_producer_id` returns producer ids, and raises
KafkaError while none is reserved.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.core.append_errors import coordinator_error
from odradek.core.transactions.command_checks import check
from odradek.core.transactions.commands import (
    EPOCH_INCREMENTS_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AddPartitions,
    AddPartitionsResponse,
    Command,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
    Markers,
    ProducerIdentity,
    Response,
    VerifyPartitions,
    VerifyPartitionsResponse,
)
from odradek.core.transactions.coordinator_result import (
    CoordinatorResult,
    MetadataWritten,
    Token,
    TombstonesWritten,
    WriteEvent,
)
from odradek.core.transactions.end_checks import is_repeated, is_repeated_before_epoch_increments
from odradek.core.transactions.error_responses import error_response_of
from odradek.core.transactions.metadata_records import metadata_of, record_of, tombstone_of
from odradek.core.transactions.producer_checks import check_may_write, check_producer, may_match
from odradek.core.transactions.records import TransactionRecord
from odradek.core.transactions.settings import TransactionSettings
from odradek.core.transactions.transaction import Transaction
from odradek.core.transactions.transaction_metadata import (
    ENDING,
    EPOCH_MAX,
    INACTIVE,
    NO_TIMEOUT,
    State,
    TransactionMetadata,
    assert_transition,
    prepare_add_partitions,
    prepare_completion,
    prepare_end,
    prepare_epoch_increment,
    prepare_keep,
    prepare_producer_id_rotation,
)

RETRY_MS = 100
"""The pause before a failed write of a completion is repeated."""


class TransactionCoordinator:
    def __init__(
        self,
        settings: TransactionSettings,
        *,
        coordinator_epoch: int,
        transaction_version: Callable[[], int],
        new_producer_id: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._coordinator_epoch = coordinator_epoch
        self._transaction_version = transaction_version
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        self._timeouts_at_ms: int | None = None
        self._expiry_at_ms: int | None = None
        self._timed_out: deque[str] = deque()
        self._retries: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    # ---- commands

    def handle(self, command: Command, token: Token, now_ms: int) -> CoordinatorResult:
        try:
            check(command, self._settings, self._transaction_version())
            match command:
                case VerifyPartitions():
                    return CoordinatorResult(responses=[(token, self._verify(command))])
                case AddPartitions():
                    return self._add_partitions(command, token, now_ms)
                case EndTransaction():
                    return self._end(command, token, now_ms)
                case InitProducerId():
                    return self._init(command, token, now_ms)
        except KafkaError as error:
            return CoordinatorResult(responses=[(token, error_response_of(command, error.code))])

    def _find(self, transactional_id: str) -> Transaction:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.invalid_producer_id_mapping)
        return transaction

    def _verify(self, command: VerifyPartitions) -> VerifyPartitionsResponse:
        metadata = self._find(command.transactional_id).metadata
        check_may_write(metadata, command.producer_id, command.producer_epoch)
        return VerifyPartitionsResponse(
            ErrorCode.none,
            {
                partition: ErrorCode.none if partition in metadata.partitions else ErrorCode.transaction_abortable
                for partition in command.partitions
            },
        )

    def _add_partitions(self, command: AddPartitions, token: Token, now_ms: int) -> CoordinatorResult:
        transaction = self._find(command.transactional_id)
        if transaction.has_pending_transition:
            raise KafkaError(ErrorCode.concurrent_transactions)
        metadata = transaction.metadata
        check_may_write(metadata, command.producer_id, command.producer_epoch)
        done = AddPartitionsResponse(ErrorCode.none)
        if metadata.state is State.ONGOING and command.partitions <= metadata.partitions:
            return CoordinatorResult(responses=[(token, done)])
        after = prepare_add_partitions(metadata, command.partitions, command.transaction_version, now_ms)
        return self._write(transaction, after, token, done)

    # ---- the producer's id and epoch

    def _init(self, command: InitProducerId, token: Token, now_ms: int) -> CoordinatorResult:
        timeout_ms = NO_TIMEOUT if command.enable_two_phase_commit else command.timeout_ms
        transaction = self._transactions.get(command.transactional_id)
        if transaction is None:
            metadata = TransactionMetadata(self._new_producer_id(), timeout_ms, update_ms=now_ms)
            transaction = Transaction(command.transactional_id, metadata)
            self._transactions[command.transactional_id] = transaction
        metadata, expected = transaction.metadata, command.expected
        if transaction.has_pending_transition:
            raise KafkaError(ErrorCode.concurrent_transactions)
        if expected is not None and not may_match(metadata, expected):
            raise KafkaError(ErrorCode.producer_fenced)
        if metadata.state in ENDING:
            raise KafkaError(ErrorCode.concurrent_transactions)
        if metadata.state is State.ONGOING:
            if command.keep_prepared:
                return self._keep(transaction, timeout_ms, token, now_ms)
            # The producer retries until the abort is complete, and only then gets its own epoch.
            return self._fence(transaction, token, InitProducerIdResponse(ErrorCode.concurrent_transactions), now_ms)
        expected_epoch = None if expected is None else expected.producer_epoch
        if metadata.is_exhausted and expected_epoch in (None, metadata.producer_epoch):
            after = prepare_producer_id_rotation(
                metadata, self._new_producer_id(), timeout_ms, now_ms, keeps_last_epoch=expected is not None
            )
        else:
            after = prepare_epoch_increment(metadata, expected_epoch, timeout_ms, now_ms)
        return self._write(transaction, after, token, InitProducerIdResponse(ErrorCode.none, after.producer))

    def _keep(self, transaction: Transaction, timeout_ms: int, token: Token, now_ms: int) -> CoordinatorResult:
        metadata = transaction.metadata
        if metadata.is_exhausted:
            successor = ProducerIdentity(self._new_producer_id(), 0)
        else:
            successor = ProducerIdentity(metadata.producer.producer_id, metadata.producer.producer_epoch + 1)
        after = prepare_keep(metadata, successor, timeout_ms, now_ms)
        return self._write(
            transaction, after, token, InitProducerIdResponse(ErrorCode.none, successor, metadata.writer)
        )

    # ---- the end

    def _end(self, command: EndTransaction, token: Token, now_ms: int) -> CoordinatorResult:
        transaction = self._find(command.transactional_id)
        metadata = transaction.metadata
        increments_epoch = command.transaction_version >= EPOCH_INCREMENTS_SINCE
        if increments_epoch:
            if transaction.has_pending_transition:
                raise KafkaError(ErrorCode.concurrent_transactions)
            if is_repeated(metadata, command):
                return CoordinatorResult(responses=[(token, EndTransactionResponse(ErrorCode.none, metadata.producer))])
        else:
            if transaction.has_pending_transition:
                check_producer(metadata, command.producer_id, command.producer_epoch)
                raise KafkaError(ErrorCode.concurrent_transactions)
            if is_repeated_before_epoch_increments(metadata, command):
                return CoordinatorResult(responses=[(token, EndTransactionResponse(ErrorCode.none))])
        after = self._prepare_end(metadata, commits=command.commits, version=command.transaction_version, now_ms=now_ms)
        producer = prepare_completion(after, now_ms).producer
        return self._write(
            transaction,
            after,
            token,
            EndTransactionResponse(ErrorCode.none, producer)
            if increments_epoch
            else EndTransactionResponse(ErrorCode.none),
        )

    def _prepare_end(
        self, metadata: TransactionMetadata, *, commits: bool, version: int, now_ms: int
    ) -> TransactionMetadata:
        new_producer_id = NO_PRODUCER_ID
        if version >= EPOCH_INCREMENTS_SINCE and metadata.is_exhausted:
            new_producer_id = self._new_producer_id()
        return prepare_end(
            metadata,
            commits=commits,
            # Kafka does not record version 1 here: it does not increment epochs either.
            client_version=version if version >= EPOCH_INCREMENTS_SINCE else 0,
            new_producer_id=new_producer_id,
            now_ms=now_ms,
        )

    def _fence(
        self, transaction: Transaction, token: Token | None, response: Response | None, now_ms: int
    ) -> CoordinatorResult:
        """Aborts in an epoch that no client has: the former producer of the transaction is fenced."""
        version = self._transaction_version()
        if version >= EPOCH_INCREMENTS_SINCE:
            after = self._prepare_end(transaction.metadata, commits=False, version=version, now_ms=now_ms)
        else:
            if not transaction.has_failed_epoch_fence:
                self._increment_epoch_for_fence(transaction)
            after = self._prepare_end(transaction.metadata, commits=False, version=version, now_ms=now_ms)
            transaction.has_failed_epoch_fence = True
        return self._write(transaction, after, token, response)

    def _increment_epoch_for_fence(self, transaction: Transaction) -> None:
        metadata = transaction.metadata
        transaction.metadata = metadata._replace(
            producer_epoch=min(metadata.producer_epoch + 1, EPOCH_MAX), last_producer_epoch=NO_PRODUCER_EPOCH
        )

    def _send_markers(self, transaction: Transaction, now_ms: int) -> CoordinatorResult:
        """The end is committed to the log: sends the markers, after which `_write_completion` completes it."""
        metadata = transaction.metadata
        transaction.has_failed_epoch_fence = False
        completed = prepare_completion(metadata, now_ms)
        assert_transition(metadata, completed)
        transaction.pending_write = MetadataWritten(transaction.transactional_id, completed)
        if not metadata.partitions:
            return self._write_completion(transaction)
        transaction.partitions_without_marker = set(metadata.partitions)
        markers = Markers(
            transaction.transactional_id,
            *metadata.writer,
            self._coordinator_epoch,
            metadata.state is State.PREPARE_COMMIT,
            metadata.client_version,
            metadata.partitions,
        )
        return CoordinatorResult(markers=[markers])

    def on_markers_written(
        self, markers: Markers, partitions: Iterable[TopicPartition], now_ms: int
    ) -> CoordinatorResult:
        """These partitions have their markers, or were deleted."""
        transaction = self._transactions.get(markers.transactional_id)
        if (
            transaction is None
            or not transaction.is_waiting_for_markers
            or transaction.metadata.writer != (markers.producer_id, markers.producer_epoch)
        ):
            return CoordinatorResult()
        assert transaction.partitions_without_marker <= transaction.metadata.partitions, "markers of other partitions"
        transaction.partitions_without_marker.difference_update(partitions)
        return CoordinatorResult() if transaction.partitions_without_marker else self._write_completion(transaction)

    def _write_completion(self, transaction: Transaction) -> CoordinatorResult:
        assert transaction.pending_write is not None
        return self._record(transaction.pending_write)

    # ---- the log

    def _write(
        self, transaction: Transaction, after: TransactionMetadata, token: Token | None, response: Response | None
    ) -> CoordinatorResult:
        assert not transaction.has_pending_transition, "a transaction has one pending transition"
        assert_transition(transaction.metadata, after)
        transaction.pending_write = MetadataWritten(transaction.transactional_id, after, token, response)
        return self._record(transaction.pending_write)

    def _record(self, writing: MetadataWritten) -> CoordinatorResult:
        record = record_of(writing.transactional_id, writing.metadata, self._transaction_version())
        return CoordinatorResult(records=[record], write_event=writing)

    def on_written(self, event: WriteEvent, error: ErrorCode, now_ms: int) -> CoordinatorResult:
        """The records of a result with a `write_event` are committed, or failed with this error."""
        if isinstance(event, TombstonesWritten):
            return self._on_tombstones_written(event, error)
        transaction = self._transactions.get(event.transactional_id)
        if transaction is None or transaction.pending_write is not event:
            return CoordinatorResult()
        if error is not ErrorCode.none:
            return self._on_write_failed(transaction, event, coordinator_error(error), now_ms)
        transaction.pending_write = None
        transaction.metadata = event.metadata
        result = self._send_markers(transaction, now_ms) if event.metadata.state in ENDING else CoordinatorResult()
        if event.token is not None and event.response is not None:
            result.responses.append((event.token, event.response))
        if event.metadata.state is State.ONGOING:
            self._watch_timeouts(now_ms)
        return result

    def _on_write_failed(
        self, transaction: Transaction, event: MetadataWritten, error: ErrorCode, now_ms: int
    ) -> CoordinatorResult:
        if transaction.metadata.state in ENDING:
            # The partitions have their markers already, so the completion must be event.
            self._retries.append((now_ms + RETRY_MS, transaction.transactional_id))
            return CoordinatorResult()
        transaction.pending_write = None
        result = CoordinatorResult()
        if event.token is not None and event.response is not None:
            result.responses.append((event.token, type(event.response)(error)))
        return result

    def _on_tombstones_written(self, event: TombstonesWritten, error: ErrorCode) -> CoordinatorResult:
        for transactional_id in event.transactional_ids:
            transaction = self._transactions[transactional_id]
            transaction.pending_write = None
            if error is ErrorCode.none:
                del self._transactions[transactional_id]
        return CoordinatorResult()

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Not needed: uncommitted state is never visible."""

    def replay(self, record: TransactionRecord, offset: int, now_ms: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Only while the log is loaded: its own records take effect in `on_written`."""
        transactional_id = record.key.transactional_id
        if record.value is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = Transaction(transactional_id, metadata_of(record.value))

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """No transaction writes to this topic."""

    # ---- time

    def next_deadline_ms(self) -> int | None:
        if self._timed_out:
            return 0
        deadlines = [self._timeouts_at_ms, self._expiry_at_ms, self._retries[0][0] if self._retries else None]
        return min((one for one in deadlines if one is not None), default=None)

    def expire_deadline(self, now_ms: int) -> CoordinatorResult | None:
        """Handles one expired deadline. The caller repeats this until it returns None."""
        if self._timeouts_at_ms is not None and self._timeouts_at_ms <= now_ms:
            self._find_timed_out(now_ms)
        if self._timed_out:
            return self._time_out(self._timed_out.popleft(), now_ms)
        if self._retries and self._retries[0][0] <= now_ms:
            _, transactional_id = self._retries.popleft()
            return self._write_completion(self._transactions[transactional_id])
        if self._expiry_at_ms is not None and self._expiry_at_ms <= now_ms:
            self._expiry_at_ms = now_ms + self._settings.id_expiration_check_interval_ms
            return self._expire(now_ms)
        return None

    def _watch_timeouts(self, now_ms: int) -> None:
        if self._timeouts_at_ms is None:
            self._timeouts_at_ms = now_ms + self._settings.timeouts_check_interval_ms

    def _find_timed_out(self, now_ms: int) -> None:
        self._timeouts_at_ms = None
        for transaction in self._transactions.values():
            metadata = transaction.metadata
            if metadata.state is State.ONGOING and not metadata.has_no_timeout:
                self._watch_timeouts(now_ms)
                if metadata.start_ms + metadata.timeout_ms < now_ms:
                    self._timed_out.append(transaction.transactional_id)

    def _time_out(self, transactional_id: str, now_ms: int) -> CoordinatorResult:
        transaction = self._transactions.get(transactional_id)
        # If a transition is pending, the next check finds the transaction again.
        if transaction is None or transaction.has_pending_transition or transaction.metadata.state is not State.ONGOING:
            return CoordinatorResult()
        try:
            return self._fence(transaction, None, None, now_ms)
        except KafkaError:
            # No producer id is reserved.
            return CoordinatorResult()

    def _expire(self, now_ms: int) -> CoordinatorResult:
        before_ms = now_ms - self._settings.id_expiration_ms
        expired = [
            transaction
            for transaction in self._transactions.values()
            if not transaction.has_pending_transition
            and transaction.metadata.state in INACTIVE
            and transaction.metadata.update_ms <= before_ms
        ]
        if not expired:
            return CoordinatorResult()
        for transaction in expired:
            transaction.pending_write = MetadataWritten(
                transaction.transactional_id, transaction.metadata._replace(state=State.DEAD)
            )
        ids = tuple(transaction.transactional_id for transaction in expired)
        return CoordinatorResult(
            records=[tombstone_of(one) for one in ids], write_event=TombstonesWritten(ids), is_atomic=False
        )

    # ---- leadership

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult]:
        self._expiry_at_ms = now_ms + self._settings.id_expiration_check_interval_ms
        self._watch_timeouts(now_ms)
        return [
            self._send_markers(transaction, now_ms)
            for transaction in self._transactions.values()
            if transaction.metadata.state in ENDING
        ]

    def on_unloaded(self, now_ms: int) -> CoordinatorResult:
        result = CoordinatorResult()
        for transaction in self._transactions.values():
            writing, transaction.pending_write = transaction.pending_write, None
            if writing is not None and writing.token is not None and writing.response is not None:
                result.responses.append((writing.token, type(writing.response)(ErrorCode.not_coordinator)))
        return result
