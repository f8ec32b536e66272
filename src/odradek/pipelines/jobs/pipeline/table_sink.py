"""Writes a stream to a table: tasks write data files, the driver commits them with the marker (sink, batch).

Spark may repeat a batch; one that is already committed is skipped.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

import odradek
from odradek.pipelines.jobs.data_file import DataFileWriter, data_file_name
from odradek.pipelines.jobs.ingest_task import REPORT_SCHEMA, TaskReport
from odradek.pipelines.jobs.pipeline.checkpoint import query_of
from odradek.pipelines.jobs.state import JobState
from odradek.pipelines.jobs.tables.table import NO_BATCH, DataFile, Table
from odradek.pipelines.spark.version_check import check_version
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPORT: Final = pa.schema([("report", pa.string())])


class TableSink:
    """Passed to Spark's foreachBatch."""

    def __init__(self, directory: Path, table: Table, *, job: str, checkpoint: Path) -> None:
        self._directory: Final = directory
        self._table: Final = table
        self._job: Final = job
        self._checkpoint: Final = checkpoint
        self._state: Final = JobState(directory, job)
        self._is_known = False

    def __call__(self, batch: "DataFrame", number: int) -> None:
        if not self._is_known:
            self._check_identity()
            self._is_known = True
        if self._table.last_batch(self._job) >= number:
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(batch.schema, timezone="UTC")
        task = _write_task(str(self._directory.absolute()), self._job, number)
        reports = [TaskReport.from_json(row.report) for row in batch.mapInArrow(task, REPORT_SCHEMA).collect()]
        self._table.shape(schema)
        self._table.commit(
            self._job,
            number,
            [DataFile(one.file, one.size_bytes, one.modified_ms, one.rows) for one in reports if one.file is not None],
        )

    def _check_identity(self) -> None:
        """The checkpoint numbers the batches: with another one, new batches would be skipped as committed."""
        query = query_of(self._checkpoint)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._state.directory.mkdir(parents=True, exist_ok=True)
        if not self._state.exists:
            self._table.check_new()
            if self._table.last_batch(self._job) != NO_BATCH:
                raise UserError(
                    f"Table {str(self._directory)!r} has batches of {self._job!r}, but the sink's state is missing. "
                    "Restore "
                    "it, or choose another table."
                )
        self._state.identify({"job": "pipeline", "query": query})


def _write_task(directory: str, job: str, batch: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    version = odradek.__version__

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        check_version(version)
        report = TaskReport()
        file = DataFileWriter(Path(directory) / data_file_name(batch, uuid4().hex, job))
        for one in batches:
            if one.num_rows:
                file.write(one)
                report.rows += one.num_rows
        if file.close():
            report.file = file.path.name
            report.size_bytes = file.path.stat().st_size
            report.modified_ms = time.time_ns() // 1_000_000
        yield pa.RecordBatch.from_arrays([pa.array([report.to_json()])], schema=_REPORT)

    return task
