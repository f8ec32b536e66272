"""`format("odradek")` whose sink dies where a file says, once: killed after a request, as if the driver's machine had
gone, or in a task.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from odradek.client.cluster import Cluster
from odradek.client.producer_transactions import TransactionHandle, TransactionTerms
from odradek.pipelines.spark.exactly_once.requests import Request
from odradek.pipelines.spark.options import exactly_once_options
from odradek.pipelines.spark.sink.exactly_once_rows import ExactlyOnceRows, StartedBatch, TaskDone
from odradek.pipelines.spark.sink.writers import ExactlyOnceStreamWriter
from odradek.pipelines.spark.source import OdradekSource

# Steps of docs/explanation/exactly-once-sink-protocol.md, each with the number of the request in its process.
CRASH_POINTS = {
    "1 the name is taken": ("begin", 1),
    "2 the state is read": ("begin", 2),
    "3 begun": ("begin", 3),
    "4 a task has looked": ("task", 1),
    "5 a task has an id": ("task", 2),
    "6 a task has written": ("task", 3),
    "7 decided": ("commit", 3),
    "8 some are committed": ("commit", 4),
    "9 finished": ("commit", 7),
}


class CrashingSource(OdradekSource):
    @classmethod
    def name(cls) -> str:
        return "crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        once = exactly_once_options(self._options, streaming=True)
        assert once is not None
        rows = CrashingRows(once, self._rows(schema))
        rows.crash_file = Path(self._options["crashfile"])
        return ExactlyOnceStreamWriter(rows)


class CrashingRows(ExactlyOnceRows):
    crash_file: Path
    _where = ""

    def _begin(self) -> StartedBatch:
        self._where = "begin"
        return super()._begin()

    def write(self, batches: Iterator[Any]) -> TaskDone:
        self._where = "task"
        return super().write(batches)

    def commit(self, messages: Any) -> None:
        self._where = "commit"
        super().commit(messages)

    def abort(self, messages: Any) -> None:
        if not self._grave.exists():
            super().abort(messages)

    @property
    def _grave(self) -> Path:
        """There is one if the driver is to be thought of as dead: it aborts nothing any more."""
        return self.crash_file.with_suffix(".dead")

    def _handler(
        self, cluster: Cluster, terms: TransactionTerms, write_rows: Callable[[TransactionHandle], None] | None
    ) -> Callable[[Request], Any]:
        handle = super()._handler(cluster, terms, write_rows)
        count = 0

        def handle_and_die(request: Request) -> Any:
            nonlocal count
            response = handle(request)
            count += 1
            if self._is_here(count):
                os.kill(os.getpid(), signal.SIGKILL)
            return response

        return handle_and_die

    def _is_here(self, count: int) -> bool:
        try:
            if self.crash_file.read_text() != f"{self._where} {count}":
                return False
            # Of two tasks only one finds it.
            self.crash_file.unlink()
        except FileNotFoundError:
            return False
        if self._where != "task":
            self._grave.touch()
        return True


def arm(crash_file: Path, where: str, count: int) -> None:
    crash_file.write_text(f"{where} {count}")
