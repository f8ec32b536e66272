"""Producers that write to every partition continuously, and their longest time without an acknowledgement."""

import threading
import time
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaError, Message, Producer

from tests.kafka.java_program import JavaProgram

INTERVAL_S = 0.005
POLL_S_MAX = 0.002
# Client settings for a fast failover.
QUICK_SETTINGS = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}


class GapMeter(Protocol):
    def reset(self) -> None: ...

    def gap_s(self, partition: int) -> float:
        """The longest gap since the reset, including the time since the last acknowledgement."""

    def waiting_s(self) -> float:
        """Time since the last acknowledgement of the partition that has waited longest."""

    def stop(self) -> None: ...


class ConfluentGaps:
    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: Any) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0, **settings}
        )
        self._topic = topic
        self._longest_s = [0.0] * partitions
        self._last = [time.monotonic()] * partitions
        self._is_over = False
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        self._longest_s = [0.0] * len(self._last)

    def gap_s(self, partition: int) -> float:
        return max(self._longest_s[partition], time.monotonic() - self._last[partition])

    def waiting_s(self) -> float:
        return time.monotonic() - min(self._last)

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()

    def _produce(self) -> None:
        next_at = time.monotonic()
        while not self._is_over:
            if time.monotonic() >= next_at:
                next_at = time.monotonic() + INTERVAL_S
                for partition in range(len(self._last)):
                    self._producer.produce(self._topic, bytes(100), partition=partition, on_delivery=self._on_delivery)
            self._producer.poll(POLL_S_MAX)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if error is None and partition is not None:
            now = time.monotonic()
            self._longest_s[partition] = max(self._longest_s[partition], now - self._last[partition])
            self._last[partition] = now


class JavaGaps:
    def __init__(self, libs: Path, bootstrap: str, topic: str, partitions: int) -> None:
        self._program = JavaProgram(libs, "GapProducer")
        self._program.request("start", bootstrap, topic, partitions)

    def reset(self) -> None:
        self._program.request("reset")

    def gap_s(self, partition: int) -> float:
        return self._seconds("gap", partition)

    def waiting_s(self) -> float:
        return self._seconds("waiting")

    def stop(self) -> None:
        self._program.__exit__(None, None, None)

    def _seconds(self, *words: object) -> float:
        return int(self._program.request(*words)[0]) / 1e6
