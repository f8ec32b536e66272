"""A writer, a copier and a reader of confluent-kafka, each in a thread."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.confluent_clients import PASSING
from tests.chaos.load import ANSWERS_S_MAX
from tests.chaos.transactions import load
from tests.chaos.transactions.history import Outcome, TransactionHistory, record_value
from tests.patience import Patience

READER: Final = "the committed reader of confluent"
_CALL_S_MAX: Final = 20.0
"""For one call; it is made again until it is answered."""
_HANGS_S: Final = 10.0
"""How much longer than its timeout a call may take before it is given up."""
_QUIET: Final = {"log_level": 0}


class ConfluentTransactions:
    def __init__(self, bootstrap: str, history: TransactionHistory) -> None:
        common: dict[str, object] = {"bootstrap.servers": bootstrap, **_QUIET}
        self._enough_written: Final = threading.Event()
        self._enough_copied: Final = threading.Event()
        self._enough_read: Final = threading.Event()
        self._writer: Final = _Writer("confluent, writer", history, common, self._enough_written)
        self._copier: Final = _Copier("confluent, copier", history, common, self._enough_copied)
        self._reader: Final = _Reader(READER, history, common, self._enough_read)

    def start(self) -> None:
        for thread in (self._writer, self._copier, self._reader):
            thread.start()

    def finish_producing(self) -> None:
        _end(self._writer, self._enough_written)

    def finish_copying(self) -> None:
        _end(self._copier, self._enough_copied)

    def stop(self) -> None:
        for thread, enough in (
            (self._writer, self._enough_written),
            (self._copier, self._enough_copied),
            (self._reader, self._enough_read),
        ):
            _end(thread, enough)

    def abandon(self) -> None:
        for enough in (self._enough_written, self._enough_copied, self._enough_read):
            enough.set()


def _end(thread: threading.Thread, enough: threading.Event) -> None:
    enough.set()
    if thread.is_alive():
        thread.join()


class _Transactions:
    """One transaction after the other under one transactional id; a producer that is of no use any more is replaced."""

    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], *, copies: bool = False
    ) -> None:
        self._history: Final = history
        self._name: Final = name
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
        """The records of one transaction, and how it ended: as it should, or as nobody knows."""
        producer = self._ready()
        number = self._history.begin(self._writer, places, time.monotonic())
        outcome = self._attempt(producer, number, places, sources, commits, send_offsets)
        self._history.end(self._writer, number, outcome, time.monotonic())
        return outcome

    def abandon(self, places: Sequence[int]) -> None:
        """As it is: its records are sent, and nobody asks for anything. Whoever comes next under this id ends it."""
        producer = self._ready()
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
        has_asked = False
        try:
            producer.begin_transaction()
            self._send(producer, number, places, sources)
            if send_offsets is not None:
                _again(lambda: come_back(lambda: send_offsets(producer), _CALL_S_MAX + _HANGS_S))
            if not commits:
                _again(lambda: producer.abort_transaction(_CALL_S_MAX))
                return Outcome.ABORTED
            has_asked = True
            self._history.ask_for_commit(self._writer, number)
            _again(lambda: producer.commit_transaction(_CALL_S_MAX))
            return Outcome.COMMITTED
        except KafkaException as error:
            if error.args[0].txn_requires_abort() and self._aborts(producer):
                return Outcome.ABORTED
        except CallHangs:
            self._history.hang()
        # What is not known now is decided before the successor may begin.
        self._producer = None
        self._history.replace()
        return Outcome.UNKNOWN if has_asked else Outcome.ABORTED

    def _send(self, producer: Producer, number: int, places: Sequence[int], sources: Sequence[bytes]) -> None:
        for index, place in enumerate(places):
            topic, partition = load.topic_and_partition(place)
            source = sources[index] if sources else b""
            producer.produce(topic, record_value(self._writer, number, index, place, source), partition=partition)
            producer.poll(0)

    def _aborts(self, producer: Producer) -> bool:
        try:
            _again(lambda: producer.abort_transaction(_CALL_S_MAX))
        except KafkaException:
            return False
        return True

    def _ready(self) -> Producer:
        if self._producer is None:
            producer = Producer(dict(self._settings))
            try:
                _again(lambda: producer.init_transactions(_CALL_S_MAX))
            except KafkaException as error:
                self._history.complaints.append(f"{self._name}: no transaction can be begun: {error}")
                raise
            self._producer = producer
        return self._producer


def _again(call: Callable[[], object]) -> None:
    """Until it is answered, as librdkafka asks for."""
    patience = Patience(ANSWERS_S_MAX)
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or patience.is_over():
                raise


class CallHangs(Exception):
    """It is long over its time. Whatever it was made on is not to be used again."""


def come_back(call: Callable[[], object], seconds_max: float) -> None:
    """Makes a call that may never return.

    librdkafka waits without end, whatever timeout it is given, for a group's coordinator whose broker has died and has
    left the metadata, until the connection to some other broker changes (its issues 5511 and 5456).
    """
    done, errors = threading.Event(), list[BaseException]()

    def make() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)
        done.set()

    threading.Thread(target=make, name="a call that may hang", daemon=True).start()
    if not done.wait(seconds_max):
        raise CallHangs
    if errors:
        raise errors[0]


class _Writer(threading.Thread):
    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], enough: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._transactions: Final = _Transactions(name, history, common)
        self._enough: Final = enough

    def run(self) -> None:
        while not self._enough.wait(load.WRITE_INTERVAL_S):
            number = self._transactions.count
            places = load.places_of(number)
            if number % load.ABANDON_EVERY == load.ABANDON_EVERY - 1:
                self._transactions.abandon(places)
            else:
                self._transactions.run(places, commits=number % load.ABORT_EVERY != load.ABORT_EVERY - 1)
        # Nothing is left open: whoever comes next would wait for its timeout.
        self._transactions.run((0,), commits=False)


class _Copier(threading.Thread):
    """A member of the copiers' group; where the other member is of another client, so much the better."""

    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], enough: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._history: Final = history
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
        self._enough: Final = enough

    def _new_consumer(self) -> Consumer:
        consumer = Consumer(dict(self._settings))
        consumer.subscribe([load.LEDGER])
        return consumer

    def run(self) -> None:
        while not self._enough.is_set():
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
        """To what is committed; by another consumer, if this one cannot."""
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


class _Reader(threading.Thread):
    """Assigned to all partitions of both topics from their beginning."""

    def __init__(
        self, name: str, history: TransactionHistory, common: dict[str, object], enough: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        history.new_consumer(name)
        self._history: Final = history
        self._enough: Final = enough
        self._consumer: Final = committed_consumer(common)
        self._consumer.assign([place_of_topics(place) for place in history.places])

    def run(self) -> None:
        while not self._enough.is_set():
            for place, offset, value in next_records(self._consumer, lambda _: None, self._complain):
                self._history.read(self.name, place, offset, value)
        self._consumer.close()

    def _complain(self, what: str) -> None:
        self._history.complaints.append(f"{self.name}: {what}")


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


def place_of_topics(place: int) -> TopicPartition:
    topic, partition = load.topic_and_partition(place)
    return TopicPartition(topic, partition, OFFSET_BEGINNING)


def next_records(
    consumer: Consumer, at_end: Callable[[int], None], complain: Callable[[str], None]
) -> list[tuple[int, int, bytes]]:
    """Place, offset and value; `at_end` is told of places of which there is no more for now."""
    records = []
    for message in consumer.consume(1000, 0.2):
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        place = (partition or 0) + (0 if topic == load.LEDGER else load.PARTITIONS)
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                at_end(place)
            elif error.code() not in PASSING:
                complain(f"{topic}, partition {partition}: {error}")
        elif offset is not None and value is not None:
            records.append((place, offset, value))
    return records
