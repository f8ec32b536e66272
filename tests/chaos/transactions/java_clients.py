"""A transactional writer, a copier and a reader with Apache Kafka's Java client, in a process that reports events."""

import threading
from pathlib import Path
from typing import Any, Final

from tests.chaos.java_process import JavaProcess
from tests.chaos.load import RESPONSES_S_MAX
from tests.chaos.transactions import load
from tests.chaos.transactions.history import Outcome, TransactionHistory
from tests.kafka.java_program import java_command

READER: Final = "the committed reader of Java"
_WRITER: Final = "Java, writer"
_COPIER: Final = "Java, copier"
_SOURCE: Final = Path(__file__).parent.parent / "java" / "TransactionalClients.java"
_OUTCOMES: Final = {
    "committed": Outcome.COMMITTED,
    "aborted": Outcome.ABORTED,
    "unknown": Outcome.UNKNOWN,
}


class JavaTransactions(JavaProcess):
    def __init__(self, libs: Path, bootstrap: str, history: TransactionHistory, log: Path) -> None:
        self._history: Final = history
        writer, copier = history.new_writer(_WRITER), history.new_writer(_COPIER, copies=True)
        history.new_consumer(READER)
        numbers = [
            load.PARTITIONS,
            writer,
            copier,
            int(load.WRITE_INTERVAL_S * 1000),
            load.COPIED_AT_ONCE_MAX,
            load.ABORT_EVERY,
            load.ABANDON_EVERY,
            load.COPIERS_ABORT_EVERY,
            load.TRANSACTION_TIMEOUT_MS,
            load.SESSION_TIMEOUT_MS,
            int(RESPONSES_S_MAX),
            *load.RECORDS_OF_A_TRANSACTION,
        ]
        names = [bootstrap, load.LEDGER, load.COPIES, load.GROUP, _WRITER, _COPIER]
        self._produced: Final = threading.Event()
        self._copied: Final = threading.Event()
        super().__init__("java transactions", [*java_command(libs, _SOURCE), *names, *map(str, numbers)], log)

    def finish_producing(self) -> None:
        self._finish("produced", self._produced)

    def finish_copying(self) -> None:
        self._finish("copied", self._copied)

    def _finish(self, what: str, done: threading.Event) -> None:
        self._send_command(what)
        if not done.wait(RESPONSES_S_MAX):
            self._report_error(f"a transaction is still open {RESPONSES_S_MAX:g} s after the last fault")

    def _on_event(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "read":
                self._history.read(READER, event["place"], event["offset"], event["value"].encode())
            case "begun":
                self._history.begin(event["writer"], event["places"], event["ns"] / 1e9)
            case "committing":
                self._history.request_commit(event["writer"], self._last(event["writer"]))
            case "ended":
                outcome = _OUTCOMES[event["outcome"]]
                self._history.end(event["writer"], self._last(event["writer"]), outcome, event["ns"] / 1e9)
            case "replaced":
                self._history.replace()
            case "produced":
                self._produced.set()
            case "copied":
                self._copied.set()
            case "broken":
                self._report_error(event["error"])

    def _last(self, writer: int) -> int:
        return len(self._history.transactions[writer]) - 1

    def _report_error(self, what: str) -> None:
        self._history.client_errors.append(f"Java, transactions: {what}")
