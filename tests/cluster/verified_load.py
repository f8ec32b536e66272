"""A producer and a consumer that run during a test and verify every record.

The value of a record is its partition and its number there, so that a lost, repeated or misplaced record shows in the
log. The clients can be replaced by clients with other settings, as an application is restarted.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.cluster.gaps import Gaps
from tests.patience import Patience
from tests.quick_retries import QUICK_RETRIES

INTERVAL_S: Final = 0.01
IN_FLIGHT_MAX: Final = 3000
WAIT_S_MAX: Final = 60.0
UNKNOWN_OFFSET: Final = -1
"""Of a record whose first response was lost: the broker has detected the repetition, and no longer knows the offset."""
_PRODUCER: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 2,
    # The log tells when it begins a new epoch.
    "log_level": 7,
    "debug": "eos",
    "topic.metadata.refresh.interval.ms": 1000,
    **QUICK_RETRIES,
}
_CONSUMER: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 50,
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
TRANSIENT: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}
"""librdkafka reports these errors for information and recovers by itself."""

Settings = Mapping[str, str]


class VerifiedLoad:
    """Use as a context manager. Call `finish` before its end: it verifies all records."""

    def __init__(self, topic: str, partitions: int, settings: Settings, gaps: Gaps, *, group: str) -> None:
        self._topic: Final = topic
        self._partitions: Final = partitions
        self._group: Final = group
        self._gaps: Final = gaps
        self._stop: Final = threading.Event()
        self._lock: Final = threading.Lock()
        self._settings = dict(settings)
        self._producer = self._new_producer()
        self.sent = [0] * partitions
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(partitions)]
        """Offset by number, of each partition."""
        self.read: list[dict[int, int]] = [{} for _ in range(partitions)]
        """Number by offset, as the consumer has read them."""
        self._newest_acknowledged = [-1] * partitions
        self._newest_read = [-1] * partitions
        self._renumbered: Final[list[set[int]]] = [set() for _ in range(partitions)]
        """Records in flight when librdkafka began a new epoch: no broker can detect that they were sent before."""
        self.errors: list[str] = []
        self._consumer_generation = 0
        self._threads: Final = [
            threading.Thread(target=target, name=target.__name__, daemon=True)
            for target in (self._produce, self._consume)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    # What the test does

    def replace_clients(self, settings: Settings) -> None:
        """The new producer connects before the old one ends."""
        self._settings = dict(settings)
        new = self._new_producer()
        new.list_topics(self._topic, timeout=WAIT_S_MAX)
        with self._lock:
            old, self._producer = self._producer, new
            # A number must not be stored later than the next one.
            left = old.flush(WAIT_S_MAX)
            self._consumer_generation += 1
        assert left == 0, f"{left} records of the replaced producer have no response"

    def set_password(self, user: str, password: str) -> None:
        """Of the running clients, for their next connections."""
        self._settings |= {"sasl.username": user, "sasl.password": password}
        with self._lock:
            self._producer.set_sasl_credentials(user, password)
            self._consumer_generation += 1

    def wait_for_progress(self) -> None:
        """Until every partition has acknowledged, and the consumer has read, a record that was sent after the call."""
        begins = list(self.sent)

        def has_progressed() -> bool:
            newest = zip(begins, self._newest_acknowledged, self._newest_read, strict=True)
            return all(min(acknowledged, read) > begin for begin, acknowledged, read in newest)

        patience = Patience(WAIT_S_MAX)
        while not has_progressed():
            assert not patience.is_over(), f"the clients make no progress: {self.errors[-3:]}"
            time.sleep(INTERVAL_S)

    def finish(self) -> None:
        """Ends the producer, reads the topic to its end and verifies that nothing is lost, repeated or out of order."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.verify()

    @property
    def renumbered_count(self) -> int:
        return sum(map(len, self._renumbered))

    def verify(self) -> None:
        assert not self.errors, self.errors[:5]
        for partition, log in enumerate(self._read_all()):
            numbers = [log[offset] for offset in sorted(log)]
            problem = find_problem(numbers, self.sent[partition], self._renumbered[partition])
            assert not problem, f"partition {partition}: {problem}"
            acknowledged = self.acknowledged[partition]
            assert len(acknowledged) == self.sent[partition], "a record has no acknowledgement"
            known = ((offset, number) for number, offset in acknowledged.items() if offset != UNKNOWN_OFFSET)
            assert all(log[offset] == number for offset, number in known), "a record has another offset"
            assert all(log[offset] == number for offset, number in self.read[partition].items()), (
                "the consumer read more"
            )

    # Threads

    def _produce(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            with self._lock:
                if len(self._producer) < IN_FLIGHT_MAX:
                    for partition in range(self._partitions):
                        self._send(partition)
                self._producer.poll(0)
        if left := self._producer.flush(WAIT_S_MAX):
            self.errors.append(f"{left} records have no response")

    def _send(self, partition: int) -> None:
        number = self.sent[partition]
        self.sent[partition] += 1

        def on_delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                self.errors.append(f"record {number} of partition {partition}: {error}")
                return
            self.acknowledged[partition][number] = UNKNOWN_OFFSET if offset is None else offset
            self._newest_acknowledged[partition] = number
            self._gaps.on_response(f"partition {partition}")

        self._producer.produce(self._topic, _value(partition, number), partition=partition, on_delivery=on_delivered)

    def _consume(self) -> None:
        generation = self._consumer_generation
        consumer = self._new_consumer()
        try:
            while not self._stop.is_set():
                if generation != self._consumer_generation:
                    generation = self._consumer_generation
                    consumer.close()
                    consumer = self._new_consumer()
                if self._record(consumer.consume(1000, 0.1)):
                    # Errors of commits are tolerated: the records are read again, and compared.
                    consumer.commit(asynchronous=True)
        except KafkaException as error:
            self.errors.append(f"consumer: {error}")
        finally:
            consumer.close()

    def _record(self, messages: list[Message]) -> int:
        count = 0
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                if error.code() not in TRANSIENT:
                    self.errors.append(f"consumer: {error}")
                continue
            assert partition is not None
            assert offset is not None
            number = _number(partition, message.value() or b"")
            if self.read[partition].setdefault(offset, number) != number:
                self.errors.append(f"consumer: offset {offset} of partition {partition} has changed")
            self._newest_read[partition] = number
            count += 1
        return count

    # Helpers

    def _new_producer(self) -> Producer:
        logger = logging.Logger("producer")
        logger.addFilter(self._record_new_epoch)
        return Producer({**_PRODUCER, **self._settings}, logger=logger)

    def _record_new_epoch(self, record: logging.LogRecord) -> bool:
        """As in `tests/chaos`: after a retriable rejection of a batch, librdkafka may send stored records again."""
        message = record.getMessage()
        if "epoch bump" in message and "in state DrainBump" not in message:
            for partition, found in enumerate(self._renumbered):
                found.update(range(self._newest_acknowledged[partition] + 1, self.sent[partition]))
        return False

    def _new_consumer(self) -> Consumer:
        consumer = Consumer({**_CONSUMER, **self._settings, "group.id": self._group})
        consumer.subscribe([self._topic])
        return consumer

    def _read_all(self) -> list[dict[int, int]]:
        consumer = Consumer({**_CONSUMER, **self._settings, "group.id": self._group})
        logs: list[dict[int, int]] = [{} for _ in range(self._partitions)]
        try:
            parts = [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in range(self._partitions)]
            ends = [consumer.get_watermark_offsets(part, timeout=WAIT_S_MAX)[1] for part in parts]
            consumer.assign(parts)
            patience = Patience(WAIT_S_MAX)
            while any(max(log, default=-1) < end - 1 for log, end in zip(logs, ends, strict=True)):
                assert not patience.is_over(), "the topic cannot be read to its end"
                for message in consumer.consume(1000, 0.2):
                    partition, offset = message.partition(), message.offset()
                    if message.error() is None and partition is not None and offset is not None:
                        logs[partition][offset] = _number(partition, message.value() or b"")
        finally:
            consumer.close()
        return logs


def find_problem(numbers: Sequence[int], sent: int, may_repeat: Collection[int]) -> str:
    """Why this is not the log of all records from 0 to `sent` in order; empty if it is."""
    counts = Counter(numbers)
    lost = [number for number in range(sent) if number not in counts]
    repeated = [number for number, count in counts.items() if count > 1 and number not in may_repeat]
    first = list(dict.fromkeys(numbers))
    if lost:
        return f"{len(lost)} records lost, from {lost[0]} on"
    if repeated:
        return f"{len(repeated)} records repeated, from {repeated[0]} on"
    return "" if first == list(range(sent)) else "records in another order"


def _value(partition: int, number: int) -> bytes:
    return b"%d %d" % (partition, number)


def _number(partition: int, value: bytes) -> int:
    """-1: the record does not belong to the partition."""
    words = value.split()
    return int(words[1]) if len(words) == 2 and int(words[0]) == partition else -1
