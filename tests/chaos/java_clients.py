"""Producers and a consumer of Apache Kafka's Java client, in a process that writes one line of JSON per event."""

import threading
from pathlib import Path
from typing import Any, Final

from tests.chaos import load
from tests.chaos.history import OPEN, REJECTED, History
from tests.chaos.java_process import JavaProcess
from tests.kafka.java_program import java_command

CONSUMER: Final = "the consumer of Java"
_SOURCE: Final = Path(__file__).parent / "java" / "ChaosClients.java"


class JavaClients(JavaProcess):
    def __init__(self, libs: Path, bootstrap: str, topic: str, history: History, log: Path) -> None:
        self._history: Final = history
        self._retrying: Final = history.new_producer("Java")
        once = history.new_producer("Java, once")
        history.new_consumer(CONSUMER)
        numbers = [
            history.partitions,
            self._retrying,
            once,
            load.RECORDS_PER_INTERVAL,
            int(load.INTERVAL_S * 1000),
            load.IN_FLIGHT_MAX,
            load.VALUE_BYTES,
            load.HUGE_EVERY,
            load.HUGE_BYTES,
        ]
        self._produced: Final = threading.Event()
        command = [*java_command(libs, _SOURCE), bootstrap, topic, *map(str, numbers)]
        super().__init__("java clients", command, log)

    def finish_producing(self) -> None:
        self._send_command("produced")
        # Closing the producers waits for their responses.
        if not self._produced.wait(load.RESPONSES_S_MAX):
            self._report_error(f"sends without a response {load.RESPONSES_S_MAX:g} s after the last fault")

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "read":
            self._history.read(CONSUMER, event["partition"], event["offset"], event["value"].encode())
        elif kind == "produced":
            self._produced.set()
        elif kind == "broken":
            self._report_error(event["error"])
        else:
            self._on_send_event(kind, event)

    def _on_send_event(self, kind: str, event: dict[str, Any]) -> None:
        sends, at_s = self._history.sends[event["producer"], event["partition"]], event["ns"] / 1e9
        if kind == "sent":
            sends.begin(at_s)
        elif kind == "acknowledged":
            sends.end(event["sequence"], event["offset"], at_s)
        else:
            if event["producer"] == self._retrying:
                self._report_error(f"record {event['sequence']} of partition {event['partition']}: {event['error']}")
            is_rejected = event["definite"] and event["producer"] != self._retrying
            sends.end(event["sequence"], REJECTED if is_rejected else OPEN, at_s)

    def _report_error(self, what: str) -> None:
        self._history.client_errors.append(f"Java: {what}")
