"""confluent-kafka producers and a consumer, each in a thread, and the final read."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.chaos.history import OPEN, REJECTED, History, record_value
from tests.chaos.load import (
    HUGE_BYTES,
    HUGE_EVERY,
    IN_FLIGHT_MAX,
    INTERVAL_S,
    RECORDS_PER_INTERVAL,
    RESPONSES_S_MAX,
    VALUE_BYTES,
)
from tests.patience import Patience
from tests.quick_retries import QUICK_RETRIES

QUIET: Final = {"log_level": 0}
# Records queued during an outage must not form a batch that is too large. A single record may be too large on purpose.
SIZES: Final = {"batch.size": 16_384, "message.max.bytes": 1_000_000}
# The log of sequence numbers is needed to analyse anomalies.
RETRYING: Final = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 7, "debug": "eos"}
ONCE: Final = {
    "acks": "all",
    "retries": 0,
    "max.in.flight.requests.per.connection": 1,
    "message.timeout.ms": 10_000,
    "linger.ms": 5,
}

# A consumer recovers from these errors by itself.
TRANSIENT: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT}


class ConfluentClients:
    def __init__(self, bootstrap: str, topic: str, history: History, log_directory: Path) -> None:
        common: dict[str, object] = {"bootstrap.servers": bootstrap, **QUIET}
        retrying, once = {**common, **SIZES, **RETRYING}, {**common, **SIZES, **ONCE}
        quick = {**retrying, **QUICK_RETRIES}
        self._stop_producing: Final = threading.Event()
        self._stop_consuming: Final = threading.Event()
        self._producers: Final = [
            _Producer("confluent", topic, history, retrying, self._stop_producing, log_directory),
            _Producer("confluent, quick", topic, history, quick, self._stop_producing, log_directory),
            _Producer("confluent, once", topic, history, once, self._stop_producing, log_directory, retries=False),
        ]
        self._consumer: Final = _Consumer("the consumer of confluent", topic, history, common, self._stop_consuming)

    def start(self) -> None:
        for thread in (*self._producers, self._consumer):
            thread.start()

    def finish_producing(self) -> None:
        self._stop_producing.set()
        for thread in self._producers:
            thread.join()

    def stop(self) -> None:
        self._stop_producing.set()
        self._stop_consuming.set()
        for thread in (*self._producers, self._consumer):
            if thread.is_alive():
                thread.join()

    def abandon(self) -> None:
        self._stop_producing.set()
        self._stop_consuming.set()


class _Producer(threading.Thread):
    def __init__(
        self,
        name: str,
        topic: str,
        history: History,
        settings: Mapping[str, object],
        stop_event: threading.Event,
        log_directory: Path,
        *,
        retries: bool = True,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._topic: Final = topic
        self._history: Final = history
        # Without idempotence, librdkafka resends after NOT_LEADER_OR_FOLLOWER even with `retries` 0.
        self._number: Final = history.new_producer(name, may_repeat=not retries)
        logger = _new_logger(log_directory / f"{name}.log")
        logger.addFilter(self._record_new_epoch)
        self._producer: Final = Producer(dict(settings), logger=logger)
        self._stop_event: Final = stop_event
        self._retries: Final = retries
        self._sent = 0

    def run(self) -> None:
        while not self._stop_event.wait(INTERVAL_S):
            if len(self._producer) < IN_FLIGHT_MAX:
                for _ in range(RECORDS_PER_INTERVAL):
                    self._send()
            self._producer.poll(0)
        if left := self._producer.flush(RESPONSES_S_MAX):
            self._report_error(f"{left} sends without a response {RESPONSES_S_MAX:g} s after the last fault")

    def _send(self) -> None:
        partition = self._sent % self._history.partitions
        self._sent += 1
        is_huge = not self._retries and self._sent % HUGE_EVERY == 0
        sends = self._history.sends[self._number, partition]
        sequence = sends.begin(time.monotonic())
        value = record_value(self._number, partition, sequence, HUGE_BYTES if is_huge else VALUE_BYTES)

        def on_delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                sends.end(sequence, OPEN if offset is None else offset, time.monotonic())
                return
            if self._retries:
                self._report_error(f"record {sequence} of partition {partition}: {error}")
            # Any other error may be the response to a second attempt after the first one was stored.
            is_rejected = is_huge and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
            sends.end(sequence, REJECTED if is_rejected else OPEN, time.monotonic())

        self._producer.produce(self._topic, value, partition=partition, on_delivery=on_delivered)

    def _record_new_epoch(self, record: logging.LogRecord) -> bool:
        """Records that librdkafka has bumped its epoch, after which it may send stored records again.

        This happens if a broker rejects a batch with a retriable error and then receives the next batch (for example
        during an election). It sends nothing while it drains the old epoch, and further errors log the same line.
        """
        message = record.getMessage()
        if "epoch bump" in message and "in state DrainBump" not in message:
            self._history.new_epoch(self._number)
        return True

    def _report_error(self, what: str) -> None:
        self._history.client_errors.append(f"{self.name}: {what}")


class _Consumer(threading.Thread):
    """Reads every partition from its beginning."""

    def __init__(
        self, name: str, topic: str, history: History, settings: Mapping[str, object], stop_event: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        history.new_consumer(name)
        self._history: Final = history
        self._stop_event: Final = stop_event
        self._consumer: Final = _new_consumer(topic, history.partitions, settings)

    def run(self) -> None:
        while not self._stop_event.is_set():
            for partition, offset, value in _next_records(self._consumer, self._report_error):
                self._history.read(self.name, partition, offset, value)
        self._consumer.close()

    def _report_error(self, what: str) -> None:
        self._history.client_errors.append(f"{self.name}: {what}")


def _new_logger(file: Path) -> logging.Logger:
    logger = logging.Logger(file.stem)
    handler = logging.FileHandler(file, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    return logger


def read_finally(bootstrap: str, topic: str, history: History, ends: Mapping[int, int], seconds_max: float) -> None:
    """Reads with a new consumer up to the offsets in `ends`, or until the time is over."""
    consumer = _new_consumer(topic, history.partitions, {"bootstrap.servers": bootstrap, **QUIET})
    patience = Patience(seconds_max)
    position = dict.fromkeys(ends, 0)
    while any(position[one] < end for one, end in ends.items()) and not patience.is_over():
        for partition, offset, value in _next_records(consumer, history.client_errors.append):
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


def _new_consumer(topic: str, partitions: int, settings: Mapping[str, object]) -> Consumer:
    consumer = Consumer(
        {
            **settings,
            "group.id": "none",
            "enable.auto.commit": False,
            # An offset out of range is an anomaly and must not be skipped.
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    return consumer


def _next_records(consumer: Consumer, report_error: Callable[[str], None]) -> list[tuple[int, int, bytes]]:
    records = []
    for message in consumer.consume(1000, 0.2):
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            if error.code() not in TRANSIENT:
                report_error(f"partition {partition}: {error}")
        elif partition is not None and offset is not None:
            records.append((partition, offset, message.value() or b""))
    return records
