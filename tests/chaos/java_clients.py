"""Producers and a consumer of Apache Kafka's Java client, in a process that tells of every event in a line of JSON."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Any, Final

from tests.chaos import load
from tests.chaos.history import OPEN, REFUSED, History
from tests.kafka.java_program import java_command

CONSUMER: Final = "the consumer of Java"
_SOURCE: Final = Path(__file__).parent / "java" / "ChaosClients.java"
_END_S_MAX: Final = 30.0


class JavaClients:
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
        self._command: Final = [*java_command(libs, _SOURCE), bootstrap, topic, *map(str, numbers)]
        self._log: Final = log
        self._process: subprocess.Popen[str] | None = None
        self._produced: Final = threading.Event()
        self._listener: Final = threading.Thread(target=self._listen, name="java clients", daemon=True)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        self._listener.start()

    def finish_producing(self) -> None:
        assert self._process is not None and self._process.stdin is not None, "it was started"
        self._process.stdin.write("produced\n")
        self._process.stdin.flush()
        # Its own close waits for the answers; it is given the time that the others have.
        if not self._produced.wait(load.ANSWERS_S_MAX):
            self._complain(f"sends without an answer {load.ANSWERS_S_MAX:g} s after the last fault")

    def stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        try:
            self._process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._listener.join()

    def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None, "it was started"
        for line in self._process.stdout:
            self._note(json.loads(line))
        if self._process.wait() != 0:
            self._complain(f"the process ended with {self._process.returncode}: see {self._log}")

    def _note(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "read":
            self._history.read(CONSUMER, event["partition"], event["offset"], event["value"].encode())
        elif kind == "produced":
            self._produced.set()
        elif kind == "broken":
            self._complain(event["error"])
        else:
            self._note_send(kind, event)

    def _note_send(self, kind: str, event: dict[str, Any]) -> None:
        sends, at_s = self._history.sends[event["producer"], event["partition"]], event["ns"] / 1e9
        if kind == "sent":
            sends.begin(at_s)
        elif kind == "acknowledged":
            sends.end(event["sequence"], event["offset"], at_s)
        else:
            if event["producer"] == self._retrying:
                self._complain(f"record {event['sequence']} of partition {event['partition']}: {event['error']}")
            definite = event["definite"] and event["producer"] != self._retrying
            sends.end(event["sequence"], REFUSED if definite else OPEN, at_s)

    def _complain(self, what: str) -> None:
        self._history.complaints.append(f"Java: {what}")
