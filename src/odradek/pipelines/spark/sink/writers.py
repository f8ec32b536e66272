"""`write.format("odradek")` with `kafka.transactional.id`: writes rows to topics exactly once."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from odradek.pipelines.spark.sink.exactly_once_rows import ExactlyOnceRows


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """Writes all rows of a job or none. In `foreachBatch`, writes each batch once."""

    def __init__(self, rows: ExactlyOnceRows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._rows.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._rows.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._rows.abort(messages)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, rows: ExactlyOnceRows) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._rows.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._rows.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._rows.abort(messages)
