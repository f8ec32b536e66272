"""A transactional writer, a copier and a read_committed reader with confluent-kafka, each in a thread."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.confluent_clients import TRANSIENT
from tests.chaos.load import RESPONSES_S_MAX
from tests.chaos.transactions import load
from tests.chaos.transactions.history import Outcome, TransactionHistory, record_value
from tests.patience import Patience

READER: Final = "the committed reader of confluent"
_CALL_S_MAX: Final = 20.0
"""Timeout of one call, which is retried until it succeeds."""
_HANG_GRACE_S: Final = 10.0
"""Time beyond its timeout after which a call counts as hanging."""
_QUIET: Final = {"log_level": 0}


class ConfluentTransactions:
    def __init__(self, bootstrap: str, history: TransactionHistory) -> None:
        common: dict[str, object] = {"bootstrap.servers": bootstrap, **_QUIET}
        self._stop_writing: Final = threading.Event()
        self._stop_copying: Final = threading.Event()
        self._stop_reading: Final = threading.Event()
        self._writer: Final = _Writer("confluent, writer", history, common, self._stop_writing)
        self._copier: Final = _Copier("confluent, copier", history, common, self._stop_copying)
        self._reader: Final = _Reader(READER, history, common, self._stop_reading)

    def start(self) -> None:
        for thread in (self._writer, self._copier, self._reader):
            thread.start()

    def finish_producing(self) -> None:
        _stop_thread(self._writer, self._stop_writing)

    def finish_copying(self) -> None:
        _stop_thread(self._copier, self._stop_copying)

    def stop(self) -> None:
        for thread, stop_event in (
            (self._writer, self._stop_writing),
            (self._copier, self._stop_copying),
            (self._reader, self._stop_reading),
        ):
            _stop_thread(thread, stop_event)

    def abandon(self) -> None:
        for stop_event in (self._stop_writing, self._stop_copying, self._stop_reading):
            stop_event.set()


class _ClientThread(threading.Thread):
    """A thread that ends with an error does none of its work any more, which is an anomaly of its own."""

    def __init__(self, name: str, history: TransactionHistory, stop_event: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._history: Final = history
        self._stop_event: Final = stop_event

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - reported with all other anomalies
            self._report_error(f"ended by {type(error).__name__}: {error}")

    def _work(self) -> None:
        raise NotImplementedError

    def _report_error(self, what: str) -> None:
        self._history.client_errors.append(f"{self.name}: {what}")


def _stop_thread(thread: threading.Thread, stop_event: threading.Event) -> None:
    stop_event.set()
    if thread.is_alive():
        thread.join()


class _Transactions:
    """Runs transactions under one transactional ID, and replaces the producer after a fatal error."""

    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], *, copies: bool = False
    ) -> None:
        self._history: Final = history
        self._writer: Final = history.new_writer(name, copies=copies)
        self._settings: Final = {
            **common,
            "transactional.id": name,
            "transaction.timeout.ms": load.TRANSACTION_TIMEOUT_MS,
            "linger.ms": 0,
        }
        self._producer: Producer | None = None

    @property
    def count(self) -> int:
        return len(self._history.transactions[self._writer])

    def run(
        self,
        places: Sequence[int],
        sources: Sequence[bytes] = (),
        *,
        commits: bool = True,
        send_offsets: Callable[[Producer], None] | None = None,
    ) -> Outcome:
        """Runs one transaction and returns its outcome."""
        producer = self._get_producer()
        number = self._history.begin(self._writer, places, time.monotonic())
        outcome = self._attempt(producer, number, places, sources, commits, send_offsets)
        self._history.end(self._writer, number, outcome, time.monotonic())
        return outcome

    def abandon(self, places: Sequence[int]) -> None:
        """Leaves a transaction open after sending its records. The next producer with this ID aborts it."""
        producer = self._get_producer()
        number = self._history.begin(self._writer, places, time.monotonic())
        try:
            producer.begin_transaction()
            self._send(producer, number, places, ())
            producer.flush(1.0)
        except KafkaException:
            self._history.replace()
        self._producer = None

    def _attempt(
        self,
        producer: Producer,
        number: int,
        places: Sequence[int],
        sources: Sequence[bytes],
        commits: bool,
        send_offsets: Callable[[Producer], None] | None,
    ) -> Outcome:
        is_commit_requested = False
        try:
            producer.begin_transaction()
            self._send(producer, number, places, sources)
            if send_offsets is not None:
                _retry(lambda: call_with_timeout(lambda: send_offsets(producer), _CALL_S_MAX + _HANG_GRACE_S))
            if not commits:
                _retry(lambda: producer.abort_transaction(_CALL_S_MAX))
                return Outcome.ABORTED
            is_commit_requested = True
            self._history.request_commit(self._writer, number)
            _retry(lambda: producer.commit_transaction(_CALL_S_MAX))
            return Outcome.COMMITTED
        except KafkaException as error:
            if error.args[0].txn_requires_abort() and self._try_abort(producer):
                return Outcome.ABORTED
        except CallTimedOut:
            self._history.hang()
        self._producer = None
        self._history.replace()
        # InitProducerId decides an unknown outcome before it returns. Until then, the copiers' offsets are pending, and
        # they could not read them to resume: without a new producer, until the transaction's timeout.
        self._get_producer()
        return Outcome.UNKNOWN if is_commit_requested else Outcome.ABORTED

    def _send(self, producer: Producer, number: int, places: Sequence[int], sources: Sequence[bytes]) -> None:
        for index, place in enumerate(places):
            topic, partition = load.topic_and_partition(place)
            source = sources[index] if sources else b""
            producer.produce(topic, record_value(self._writer, number, index, place, source), partition=partition)
            producer.poll(0)

    def _try_abort(self, producer: Producer) -> bool:
        try:
            _retry(lambda: producer.abort_transaction(_CALL_S_MAX))
        except KafkaException:
            return False
        return True

    def _get_producer(self) -> Producer:
        if self._producer is None:
            producer = Producer(dict(self._settings))
            try:
                _retry(lambda: producer.init_transactions(_CALL_S_MAX))
            except KafkaException as error:
                raise RuntimeError(f"no transaction can be begun: {error}") from error
            self._producer = producer
        return self._producer


def _retry(call: Callable[[], object]) -> None:
    """Repeats a call while its error is retriable, as librdkafka requires."""
    patience = Patience(RESPONSES_S_MAX)
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or patience.is_over():
                raise


class CallTimedOut(Exception):
    """The call did not return. The client object must not be used again."""


def call_with_timeout(call: Callable[[], object], seconds_max: float) -> None:
    """Makes a call that may never return.

    Regardless of its timeout, librdkafka waits for a group coordinator whose broker has died and disappeared from the
    metadata, until the connection to another broker changes (librdkafka issues 5511 and 5456).
    """
    done, errors = threading.Event(), list[BaseException]()

    def run_call() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)
        done.set()

    threading.Thread(target=run_call, name="call with timeout", daemon=True).start()
    if not done.wait(seconds_max):
        raise CallTimedOut
    if errors:
        raise errors[0]


class _Writer(_ClientThread):
    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], stop_event: threading.Event
    ) -> None:
        super().__init__(name, history, stop_event)
        self._transactions: Final = _Transactions(name, history, common)

    def _work(self) -> None:
        while not self._stop_event.wait(load.WRITE_INTERVAL_S):
            number = self._transactions.count
            places = load.places_of(number)
            if number % load.ABANDON_EVERY == load.ABANDON_EVERY - 1:
                self._transactions.abandon(places)
            else:
                self._transactions.run(places, commits=number % load.ABORT_EVERY != load.ABORT_EVERY - 1)
        # End an abandoned transaction, which would otherwise block readers until its timeout.
        self._transactions.run((0,), commits=False)


class _Copier(_ClientThread):
    """A member of the copiers' consumer group."""

    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], stop_event: threading.Event
    ) -> None:
        super().__init__(name, history, stop_event)
        self._transactions: Final = _Transactions(name, history, common, copies=True)
        self._settings: Final = {
            **common,
            "group.id": load.GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": load.SESSION_TIMEOUT_MS,
            "fetch.wait.max.ms": 100,
        }
        self._consumer = self._new_consumer()

    def _new_consumer(self) -> Consumer:
        consumer = Consumer(dict(self._settings))
        consumer.subscribe([load.LEDGER])
        return consumer

    def _work(self) -> None:
        while not self._stop_event.is_set():
            messages = [one for one in self._consumer.consume(load.COPIED_AT_ONCE_MAX, 0.2) if one.error() is None]
            if messages and self._copy(messages) is not Outcome.COMMITTED:
                self._rewind()
        self._consumer.close()

    def _copy(self, messages: Sequence[Message]) -> Outcome:
        places, sources, offsets = [], [], dict[int, int]()
        for message in messages:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None and offset is not None and value is not None, "it has no error"
            places.append(self._history.copy_of(partition))
            sources.append(value)
            offsets[partition] = offset + 1
        positions = [TopicPartition(load.LEDGER, partition, offset) for partition, offset in offsets.items()]
        number = self._transactions.count
        return self._transactions.run(
            places,
            sources,
            commits=number % load.COPIERS_ABORT_EVERY != load.COPIERS_ABORT_EVERY - 1,
            send_offsets=lambda producer: producer.send_offsets_to_transaction(
                positions, self._consumer.consumer_group_metadata(), _CALL_S_MAX
            ),
        )

    def _rewind(self) -> None:
        """Seeks to the committed offsets, or creates a new consumer if that fails."""
        try:
            for one in self._consumer.committed(self._consumer.assignment(), _CALL_S_MAX):
                if one.error is not None:
                    raise KafkaException(one.error)
                self._consumer.seek(
                    TopicPartition(one.topic, one.partition, one.offset if one.offset >= 0 else OFFSET_BEGINNING)
                )
        except KafkaException:
            self._consumer.close()
            self._consumer = self._new_consumer()


class _Reader(_ClientThread):
    """Reads all partitions of both topics from their beginning."""

    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], stop_event: threading.Event
    ) -> None:
        super().__init__(name, history, stop_event)
        history.new_consumer(name)
        self._consumer: Final = committed_consumer(common)
        self._consumer.assign([assignment_of(place) for place in history.places])

    def _work(self) -> None:
        while not self._stop_event.is_set():
            for place, offset, value in next_records(self._consumer, lambda _: None, self._report_error):
                self._history.read(self.name, place, offset, value)
        self._consumer.close()


def committed_consumer(common: dict[str, object]) -> Consumer:
    return Consumer(
        {
            **common,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
    )


def assignment_of(place: int) -> TopicPartition:
    topic, partition = load.topic_and_partition(place)
    return TopicPartition(topic, partition, OFFSET_BEGINNING)


def next_records(
    consumer: Consumer, on_end: Callable[[int], None], report_error: Callable[[str], None]
) -> list[tuple[int, int, bytes]]:
    """Returns place, offset and value. Calls `on_end` for places whose end is reached."""
    records = []
    for message in consumer.consume(1000, 0.2):
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        place = (partition or 0) + (0 if topic == load.LEDGER else load.PARTITIONS)
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                on_end(place)
            elif error.code() not in TRANSIENT:
                report_error(f"{topic}, partition {partition}: {error}")
        elif offset is not None and value is not None:
            records.append((place, offset, value))
    return records
