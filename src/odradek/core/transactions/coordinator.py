"""The transaction coordinator of one partition of `__transaction_state`.

A host feeds it: commands with a token each, records through `replay`, what became of its own records through `written`,
which markers the leaders of partitions have written, and the time when `next_deadline_ms` has come. What it has to do
in return is an `Outcome`, one step at a time. Nothing here reads a clock, waits or fails half-way.

The coordinator's epoch is the leader epoch of its partition. Producer ids come from `new_producer_id`, which raises
KafkaError while there is none at hand.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.core.append_refusals import refusal_of_append
from odradek.core.transactions.checks import check
from odradek.core.transactions.commands import (
    EPOCHS_RISE_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AddPartitions,
    AddPartitionsAnswer,
    Answer,
    Command,
    EndAnswer,
    EndTransaction,
    InitAnswer,
    InitProducerId,
    Markers,
    ProducerIdentity,
    VerifyAnswer,
    VerifyPartitions,
)
from odradek.core.transactions.ending import is_repeated, is_repeated_without_rise
from odradek.core.transactions.outcome import Outcome, StandingWritten, Token, TombstonesWritten, Written
from odradek.core.transactions.producer_checks import check_may_write, check_producer, may_be
from odradek.core.transactions.records import TransactionRecord
from odradek.core.transactions.refusals import refuse_like
from odradek.core.transactions.settings import TransactionSettings
from odradek.core.transactions.standing import (
    AT_REST,
    ENDING,
    EPOCH_MAX,
    NO_TIMEOUT,
    Standing,
    State,
    ended,
    ending,
    kept,
    with_new_id,
    with_partitions,
    with_raised_epoch,
)
from odradek.core.transactions.standing_records import record_of, standing_of, tombstone_of
from odradek.core.transactions.transaction import Transaction

RETRY_MS = 100
"""After which the record of an end is written again that could not be."""


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

    def handle(self, command: Command, token: Token, now_ms: int) -> Outcome:
        try:
            check(command, self._settings, self._transaction_version())
            match command:
                case VerifyPartitions():
                    return Outcome(answers=[(token, self._verify(command))])
                case AddPartitions():
                    return self._add_partitions(command, token, now_ms)
                case EndTransaction():
                    return self._end(command, token, now_ms)
                case InitProducerId():
                    return self._init(command, token, now_ms)
        except KafkaError as refusal:
            return Outcome(answers=[(token, refuse_like(command, refusal.code))])

    def _find(self, transactional_id: str) -> Transaction:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.invalid_producer_id_mapping)
        return transaction

    def _verify(self, command: VerifyPartitions) -> VerifyAnswer:
        standing = self._find(command.transactional_id).standing
        check_may_write(standing, command.producer_id, command.producer_epoch)
        return VerifyAnswer(
            ErrorCode.none,
            {
                partition: ErrorCode.none if partition in standing.partitions else ErrorCode.transaction_abortable
                for partition in command.partitions
            },
        )

    def _add_partitions(self, command: AddPartitions, token: Token, now_ms: int) -> Outcome:
        transaction = self._find(command.transactional_id)
        if transaction.is_busy:
            raise KafkaError(ErrorCode.concurrent_transactions)
        standing = transaction.standing
        check_may_write(standing, command.producer_id, command.producer_epoch)
        done = AddPartitionsAnswer(ErrorCode.none)
        if standing.state is State.ONGOING and command.partitions <= standing.partitions:
            return Outcome(answers=[(token, done)])
        after = with_partitions(standing, command.partitions, command.transaction_version, now_ms)
        return self._write(transaction, after, token, done)

    # ---- who the producer is

    def _init(self, command: InitProducerId, token: Token, now_ms: int) -> Outcome:
        timeout_ms = NO_TIMEOUT if command.enable_two_phase_commit else command.timeout_ms
        transaction = self._transactions.get(command.transactional_id)
        if transaction is None:
            standing = Standing(self._new_producer_id(), timeout_ms, update_ms=now_ms)
            transaction = Transaction(command.transactional_id, standing)
            self._transactions[command.transactional_id] = transaction
        standing, expected = transaction.standing, command.expected
        if transaction.is_busy:
            raise KafkaError(ErrorCode.concurrent_transactions)
        if expected is not None and not may_be(standing, expected):
            raise KafkaError(ErrorCode.producer_fenced)
        if standing.state in ENDING:
            raise KafkaError(ErrorCode.concurrent_transactions)
        if standing.state is State.ONGOING:
            if command.keep_prepared:
                return self._keep(transaction, timeout_ms, token, now_ms)
            # The producer asks again once the abort is done, and only then gets an epoch of its own.
            return self._fence(transaction, token, InitAnswer(ErrorCode.concurrent_transactions), now_ms)
        expected_epoch = None if expected is None else expected.producer_epoch
        if standing.is_exhausted and expected_epoch in (None, standing.producer_epoch):
            after = with_new_id(standing, self._new_producer_id(), timeout_ms, now_ms, knows_last=expected is not None)
        else:
            after = with_raised_epoch(standing, expected_epoch, timeout_ms, now_ms)
        return self._write(transaction, after, token, InitAnswer(ErrorCode.none, after.producer))

    def _keep(self, transaction: Transaction, timeout_ms: int, token: Token, now_ms: int) -> Outcome:
        standing = transaction.standing
        if standing.is_exhausted:
            successor = ProducerIdentity(self._new_producer_id(), 0)
        else:
            successor = ProducerIdentity(standing.producer.producer_id, standing.producer.producer_epoch + 1)
        after = kept(standing, successor, timeout_ms, now_ms)
        return self._write(transaction, after, token, InitAnswer(ErrorCode.none, successor, standing.writer))

    # ---- the end

    def _end(self, command: EndTransaction, token: Token, now_ms: int) -> Outcome:
        transaction = self._find(command.transactional_id)
        standing = transaction.standing
        rises = command.transaction_version >= EPOCHS_RISE_SINCE
        if rises:
            if transaction.is_busy:
                raise KafkaError(ErrorCode.concurrent_transactions)
            if is_repeated(standing, command):
                return Outcome(answers=[(token, EndAnswer(ErrorCode.none, standing.producer))])
        else:
            if transaction.is_busy:
                check_producer(standing, command.producer_id, command.producer_epoch)
                raise KafkaError(ErrorCode.concurrent_transactions)
            if is_repeated_without_rise(standing, command):
                return Outcome(answers=[(token, EndAnswer(ErrorCode.none))])
        after = self._ending(standing, commits=command.commits, version=command.transaction_version, now_ms=now_ms)
        producer = ended(after, now_ms).producer
        return self._write(
            transaction, after, token, EndAnswer(ErrorCode.none, producer) if rises else EndAnswer(ErrorCode.none)
        )

    def _ending(self, standing: Standing, *, commits: bool, version: int, now_ms: int) -> Standing:
        new_producer_id = NO_PRODUCER_ID
        if version >= EPOCHS_RISE_SINCE and standing.is_exhausted:
            new_producer_id = self._new_producer_id()
        return ending(
            standing,
            commits=commits,
            # Kafka forgets a level of 1 here: epochs do not rise with it either.
            client_version=version if version >= EPOCHS_RISE_SINCE else 0,
            new_producer_id=new_producer_id,
            now_ms=now_ms,
        )

    def _fence(self, transaction: Transaction, token: Token | None, answer: Answer | None, now_ms: int) -> Outcome:
        """Aborts in an epoch that nobody has: whoever had the transaction before is heard no more."""
        version = self._transaction_version()
        if version >= EPOCHS_RISE_SINCE:
            after = self._ending(transaction.standing, commits=False, version=version, now_ms=now_ms)
        else:
            if not transaction.failed_to_fence:
                self._raise_epoch_for_fence(transaction)
            after = self._ending(transaction.standing, commits=False, version=version, now_ms=now_ms)
            transaction.failed_to_fence = True
        return self._write(transaction, after, token, answer)

    def _raise_epoch_for_fence(self, transaction: Transaction) -> None:
        standing = transaction.standing
        transaction.standing = standing._replace(
            producer_epoch=min(standing.producer_epoch + 1, EPOCH_MAX), last_producer_epoch=NO_PRODUCER_EPOCH
        )

    def _complete(self, transaction: Transaction, now_ms: int) -> Outcome:
        """The end is decided, and on record: the partitions have to be told, and then that they have been."""
        standing = transaction.standing
        transaction.failed_to_fence = False
        transaction.writing = StandingWritten(transaction.transactional_id, ended(standing, now_ms))
        if not standing.partitions:
            return self._write_end(transaction)
        transaction.unmarked = set(standing.partitions)
        markers = Markers(
            transaction.transactional_id,
            *standing.writer,
            self._coordinator_epoch,
            standing.state is State.PREPARE_COMMIT,
            standing.client_version,
            standing.partitions,
        )
        return Outcome(markers=[markers])

    def marked(self, markers: Markers, partitions: Iterable[TopicPartition], now_ms: int) -> Outcome:
        """These have been told, or are gone for good."""
        transaction = self._transactions.get(markers.transactional_id)
        if (
            transaction is None
            or not transaction.is_waiting_for_markers
            or transaction.standing.writer != (markers.producer_id, markers.producer_epoch)
        ):
            return Outcome()
        transaction.unmarked.difference_update(partitions)
        return Outcome() if transaction.unmarked else self._write_end(transaction)

    def _write_end(self, transaction: Transaction) -> Outcome:
        assert transaction.writing is not None
        return self._record(transaction.writing)

    # ---- what happens in the log

    def _write(self, transaction: Transaction, after: Standing, token: Token | None, answer: Answer | None) -> Outcome:
        transaction.writing = StandingWritten(transaction.transactional_id, after, token, answer)
        return self._record(transaction.writing)

    def _record(self, writing: StandingWritten) -> Outcome:
        record = record_of(writing.transactional_id, writing.standing, self._transaction_version())
        return Outcome(records=[record], on_written=writing)

    def written(self, written: Written, error: ErrorCode, now_ms: int) -> Outcome:
        """Of an outcome's `on_written`: committed, or the error with which it was not."""
        if isinstance(written, TombstonesWritten):
            return self._buried(written, error)
        transaction = self._transactions.get(written.transactional_id)
        if transaction is None or transaction.writing is not written:
            return Outcome()
        if error is not ErrorCode.none:
            return self._failed(transaction, written, refusal_of_append(error), now_ms)
        transaction.writing = None
        transaction.standing = written.standing
        out = self._complete(transaction, now_ms) if written.standing.state in ENDING else Outcome()
        if written.token is not None and written.answer is not None:
            out.answers.append((written.token, written.answer))
        if written.standing.state is State.ONGOING:
            self._watch_timeouts(now_ms)
        return out

    def _failed(self, transaction: Transaction, written: StandingWritten, error: ErrorCode, now_ms: int) -> Outcome:
        if transaction.standing.state in ENDING:
            # There is no way back: the partitions have been told.
            self._retries.append((now_ms + RETRY_MS, transaction.transactional_id))
            return Outcome()
        transaction.writing = None
        out = Outcome()
        if written.token is not None and written.answer is not None:
            out.answers.append((written.token, type(written.answer)(error)))
        return out

    def _buried(self, written: TombstonesWritten, error: ErrorCode) -> Outcome:
        for transactional_id in written.transactional_ids:
            transaction = self._transactions[transactional_id]
            transaction.writing = None
            if error is ErrorCode.none:
                del self._transactions[transactional_id]
        return Outcome()

    def advance(self, high_watermark: int) -> None:
        """Nothing that is not committed is ever shown."""

    def replay(self, record: TransactionRecord, offset: int, now_ms: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """At load only: what it writes itself, it takes over when that is committed."""
        transactional_id = record.key.transactional_id
        if record.value is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = Transaction(transactional_id, standing_of(record.value))

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """Nobody writes to this topic in a transaction."""

    # ---- time

    def next_deadline_ms(self) -> int | None:
        if self._timed_out:
            return 0
        deadlines = [self._timeouts_at_ms, self._expiry_at_ms, self._retries[0][0] if self._retries else None]
        return min((one for one in deadlines if one is not None), default=None)

    def pass_deadline(self, now_ms: int) -> Outcome | None:
        """One that has come; None if there is none. To be called until it returns None."""
        if self._timeouts_at_ms is not None and self._timeouts_at_ms <= now_ms:
            self._find_timed_out(now_ms)
        if self._timed_out:
            return self._time_out(self._timed_out.popleft(), now_ms)
        if self._retries and self._retries[0][0] <= now_ms:
            _, transactional_id = self._retries.popleft()
            return self._write_end(self._transactions[transactional_id])
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
            standing = transaction.standing
            if standing.state is State.ONGOING and not standing.has_no_timeout:
                self._watch_timeouts(now_ms)
                if standing.start_ms + standing.timeout_ms < now_ms:
                    self._timed_out.append(transaction.transactional_id)

    def _time_out(self, transactional_id: str, now_ms: int) -> Outcome:
        transaction = self._transactions.get(transactional_id)
        # Between finding and aborting nothing happens but other aborts, and it may be busy: the next round finds it.
        if transaction is None or transaction.is_busy or transaction.standing.state is not State.ONGOING:
            return Outcome()
        try:
            return self._fence(transaction, None, None, now_ms)
        except KafkaError:
            # No new producer id is at hand.
            return Outcome()

    def _expire(self, now_ms: int) -> Outcome:
        before_ms = now_ms - self._settings.id_expiration_ms
        expired = [
            transaction
            for transaction in self._transactions.values()
            if not transaction.is_busy
            and transaction.standing.state in AT_REST
            and transaction.standing.update_ms <= before_ms
        ]
        if not expired:
            return Outcome()
        for transaction in expired:
            transaction.writing = StandingWritten(
                transaction.transactional_id, transaction.standing._replace(state=State.DEAD)
            )
        ids = tuple(transaction.transactional_id for transaction in expired)
        return Outcome(records=[tombstone_of(one) for one in ids], on_written=TombstonesWritten(ids), is_atomic=False)

    # ---- leadership

    def loaded(self, now_ms: int) -> list[Outcome]:
        self._expiry_at_ms = now_ms + self._settings.id_expiration_check_interval_ms
        self._watch_timeouts(now_ms)
        return [
            self._complete(transaction, now_ms)
            for transaction in self._transactions.values()
            if transaction.standing.state in ENDING
        ]

    def unload(self, now_ms: int) -> Outcome:
        out = Outcome()
        for transaction in self._transactions.values():
            writing, transaction.writing = transaction.writing, None
            if writing is not None and writing.token is not None and writing.answer is not None:
                out.answers.append((writing.token, type(writing.answer)(ErrorCode.not_coordinator)))
        return out
