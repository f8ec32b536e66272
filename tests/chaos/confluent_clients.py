"""Producers and consumers of confluent-kafka, each in a thread, and the final read."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.chaos.history import OPEN, REFUSED, History, record_value
from tests.chaos.load import (
    ANSWERS_S_MAX,
    HUGE_BYTES,
    HUGE_EVERY,
    IN_FLIGHT_MAX,
    INTERVAL_S,
    RECORDS_PER_INTERVAL,
    VALUE_BYTES,
)
from tests.patience import Patience
from tests.quick_retries import QUICK_RETRIES

QUIET: Final = {"log_level": 0}
# What an outage piles up must not become a batch that is too large; a record may, and the broker is to refuse it.
SIZES: Final = {"batch.size": 16_384, "message.max.bytes": 1_000_000}
# What librdkafka thinks of its sequence numbers is evidence.
RETRYING: Final = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 7, "debug": "eos"}
ONCE: Final = {
    "acks": "all",
    "retries": 0,
    "max.in.flight.requests.per.connection": 1,
    "message.timeout.ms": 10_000,
    "linger.ms": 5,
}

# Of a consumer, while a broker is away; it goes on by itself.
PASSING: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT}


class ConfluentClients:
    def __init__(self, bootstrap: str, topic: str, history: History, log_directory: Path) -> None:
        common: dict[str, object] = {"bootstrap.servers": bootstrap, **QUIET}
        retrying, once = {**common, **SIZES, **RETRYING}, {**common, **SIZES, **ONCE}
        quick = {**retrying, **QUICK_RETRIES}
        self._enough_sent: Final = threading.Event()
        self._enough_read: Final = threading.Event()
        self._producers: Final = [
            _Producer("confluent", topic, history, retrying, self._enough_sent, log_directory),
            _Producer("confluent, quick", topic, history, quick, self._enough_sent, log_directory),
            _Producer("confluent, once", topic, history, once, self._enough_sent, log_directory, retries=False),
        ]
        self._consumer: Final = _Consumer("the consumer of confluent", topic, history, common, self._enough_read)

    def start(self) -> None:
        for thread in (*self._producers, self._consumer):
            thread.start()

    def finish_producing(self) -> None:
        self._enough_sent.set()
        for thread in self._producers:
            thread.join()

    def stop(self) -> None:
        self._enough_sent.set()
        self._enough_read.set()
        for thread in (*self._producers, self._consumer):
            if thread.is_alive():
                thread.join()

    def abandon(self) -> None:
        self._enough_sent.set()
        self._enough_read.set()


class _Producer(threading.Thread):
    def __init__(
        self,
        name: str,
        topic: str,
        history: History,
        settings: Mapping[str, object],
        enough: threading.Event,
        log_directory: Path,
        *,
        retries: bool = True,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._topic: Final = topic
        self._history: Final = history
        # Without idempotence librdkafka sends again what a deposed leader answers, whatever `retries` says.
        self._number: Final = history.new_producer(name, may_repeat=not retries)
        logger = _new_logger(log_directory / f"{name}.log")
        logger.addFilter(self._notice_new_epoch)
        self._producer: Final = Producer(dict(settings), logger=logger)
        self._enough: Final = enough
        self._retries: Final = retries
        self._sent = 0

    def run(self) -> None:
        while not self._enough.wait(INTERVAL_S):
            if len(self._producer) < IN_FLIGHT_MAX:
                for _ in range(RECORDS_PER_INTERVAL):
                    self._send()
            self._producer.poll(0)
        if left := self._producer.flush(ANSWERS_S_MAX):
            self._complain(f"{left} sends without an answer {ANSWERS_S_MAX:g} s after the last fault")

    def _send(self) -> None:
        partition = self._sent % self._history.partitions
        self._sent += 1
        is_huge = not self._retries and self._sent % HUGE_EVERY == 0
        sends = self._history.sends[self._number, partition]
        sequence = sends.begin(time.monotonic())
        value = record_value(self._number, partition, sequence, HUGE_BYTES if is_huge else VALUE_BYTES)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                sends.end(sequence, OPEN if offset is None else offset, time.monotonic())
                return
            if self._retries:
                self._complain(f"record {sequence} of partition {partition}: {error}")
            # Whatever else it is told may be the answer to a second attempt, after a first one that was stored.
            definite = is_huge and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
            sends.end(sequence, REFUSED if definite else OPEN, time.monotonic())

        self._producer.produce(self._topic, value, partition=partition, on_delivery=delivered)

    def _notice_new_epoch(self, record: logging.LogRecord) -> bool:
        """When a batch is refused in passing and the next one comes in time to miss it (a leader is being elected, a
        replica is back in sync), librdkafka gives all partitions a new epoch, also to what others may have stored.
        While it waits for the last answers under the old one it sends nothing, and every further refusal says it again.
        """
        message = record.getMessage()
        if "epoch bump" in message and "in state DrainBump" not in message:
            self._history.new_epoch(self._number)
        return True

    def _complain(self, what: str) -> None:
        self._history.complaints.append(f"{self.name}: {what}")


class _Consumer(threading.Thread):
    """Assigned to every partition from its beginning."""

    def __init__(
        self, name: str, topic: str, history: History, settings: Mapping[str, object], enough: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        history.new_consumer(name)
        self._history: Final = history
        self._enough: Final = enough
        self._consumer: Final = _assigned(topic, history.partitions, settings)

    def run(self) -> None:
        while not self._enough.is_set():
            for partition, offset, value in _next_records(self._consumer, self._complain):
                self._history.read(self.name, partition, offset, value)
        self._consumer.close()

    def _complain(self, what: str) -> None:
        self._history.complaints.append(f"{self.name}: {what}")


def _new_logger(file: Path) -> logging.Logger:
    logger = logging.Logger(file.stem)
    handler = logging.FileHandler(file, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    return logger


def read_finally(bootstrap: str, topic: str, history: History, ends: Mapping[int, int], seconds_max: float) -> None:
    """By a new consumer, to the offsets in `ends` or as far as it comes in that time."""
    consumer = _assigned(topic, history.partitions, {"bootstrap.servers": bootstrap, **QUIET})
    patience = Patience(seconds_max)
    position = dict.fromkeys(ends, 0)
    while any(position[one] < end for one, end in ends.items()) and not patience.is_over():
        for partition, offset, value in _next_records(consumer, history.complaints.append):
            history.read_finally(partition, offset, value)
            position[partition] = offset + 1
    consumer.close()


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **QUIET})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in range(partitions)
        }
    finally:
        consumer.close()


def _assigned(topic: str, partitions: int, settings: Mapping[str, object]) -> Consumer:
    consumer = Consumer(
        {
            **settings,
            "group.id": "none",
            "enable.auto.commit": False,
            # An offset that is not there any more is an anomaly, and not to be passed over.
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    return consumer


def _next_records(consumer: Consumer, complain: Callable[[str], None]) -> list[tuple[int, int, bytes]]:
    records = []
    for message in consumer.consume(1000, 0.2):
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            if error.code() not in PASSING:
                complain(f"partition {partition}: {error}")
        elif partition is not None and offset is not None:
            records.append((partition, offset, message.value() or b""))
    return records
