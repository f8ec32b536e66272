"""A task of `ingest`: decodes records, writes a data file, stages dead letters, and reports to the driver.

Its files are not part of the table until the driver commits them, so a task may run twice or crash.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa

import odradek
from odradek.pipelines.jobs.columns import ORIGIN, columns_text, merge, parse_columns, type_text
from odradek.pipelines.jobs.data_file import DataFileWriter, data_file_name
from odradek.pipelines.jobs.rows import NewFields, RowDecoder
from odradek.pipelines.jobs.values import Values
from odradek.pipelines.spark.version_check import check_version

# Source columns for rows. Dead letters also need the headers.
SOURCE_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
# More schemas in one batch indicate an error.
WANTED_MAX: Final = 10_000
REPORT_SCHEMA: Final = "report string"
_REPORT: Final = pa.schema([("report", pa.string())])


@dataclass(slots=True, kw_only=True)
class TaskReport:
    """Sent to the driver as JSON."""

    file: str | None = None
    size_bytes: int = 0
    modified_ms: int = 0
    rows: int = 0
    letters: str | None = None
    bad: int = 0
    first_bad: tuple[int, int, str] | None = None
    """Partition, offset, reason."""
    new: dict[str, str] = field(default_factory=dict)
    """Types of new fields."""
    wanted: list[int] = field(default_factory=list)
    """Missing schemas that some records need, up to a maximum."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "TaskReport":
        found = json.loads(text)
        first = found.pop("first_bad")
        return cls(**found, first_bad=None if first is None else (first[0], first[1], first[2]))


def new_columns(reports: list[TaskReport]) -> dict[str, Any]:
    """Merge the new fields of all tasks."""
    found: dict[str, Any] = {}
    for report in reports:
        for name, text in report.new.items():
            found[name] = merge(found.get(name), parse_columns(f"found {text}").field(0).type)
    return found


def required_schemas(reports: list[TaskReport]) -> set[int]:
    return {schema_id for report in reports for schema_id in report.wanted}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTask:
    """Passed to Spark's mapInArrow and sent to every task."""

    topic: str
    directory: str
    job: str
    batch: int
    columns: str
    new_fields: str
    values: Values
    letters: str | None
    """The directory for dead letters. None: they are only counted."""
    version: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        check_version(self.version)
        report = TaskReport()
        columns = parse_columns(self.columns) if self.columns else pa.schema([])
        decoder = RowDecoder(columns, NewFields(self.new_fields), self.values.reader())
        schema = pa.schema([*ORIGIN, *columns])
        name = data_file_name(self.batch, uuid4().hex, self.job)
        rows = DataFileWriter(Path(self.directory) / name, schema)
        letters = None if self.letters is None else DataFileWriter(Path(self.letters) / name)
        new: dict[str, Any] = {}
        wanted: set[int] = set()
        for batch in batches:
            decoded = decoder.decode(batch.column("value").to_pylist())
            for field_name, found in decoded.new.items():
                new[field_name] = merge(new.get(field_name), found)
            if len(wanted) <= WANTED_MAX:
                wanted |= decoded.wanted
            if decoded.good:
                rows.write(
                    pa.RecordBatch.from_arrays([*self._origin(batch, decoded.good), *decoded.arrays], schema=schema)
                )
                report.rows += len(decoded.good)
            if decoded.bad:
                self._set_aside(batch, decoded.bad, letters, report)
        report.wanted = sorted(wanted)[: WANTED_MAX + 1]
        report.new = {field_name: type_text(found) for field_name, found in new.items()}
        if rows.close():
            report.file = rows.path.name
            report.size_bytes = rows.path.stat().st_size
            report.modified_ms = time.time_ns() // 1_000_000
        if letters is not None and letters.close():
            report.letters = letters.path.name
        yield pa.RecordBatch.from_arrays([pa.array([report.to_json()])], schema=_REPORT)

    def _origin(self, batch: Any, good: list[int]) -> list[Any]:
        taken = batch.select(["partition", "offset", "timestamp", "key"]).take(pa.array(good))
        arrays = [pa.repeat(self.topic, len(good)), *taken.columns]
        return [array.cast(one.type) for array, one in zip(arrays, ORIGIN, strict=True)]

    def _set_aside(
        self, batch: Any, bad: list[tuple[int, str]], letters: DataFileWriter | None, report: TaskReport
    ) -> None:
        if report.first_bad is None:
            index, reason = bad[0]
            report.first_bad = (batch.column("partition")[index].as_py(), batch.column("offset")[index].as_py(), reason)
        report.bad += len(bad)
        if letters is not None:
            taken = batch.take(pa.array([index for index, _ in bad]))
            reasons = pa.array([reason.encode(errors="replace").decode() for _, reason in bad])
            letters.write(pa.RecordBatch.from_arrays([*taken.columns, reasons], [*taken.schema.names, "error"]))


def make_task(
    *,
    topic: str,
    directory: Path,
    job: str,
    batch: int,
    columns: Any,
    new_fields: NewFields,
    values: Values,
    letters: Path | None,
) -> IngestTask:
    return IngestTask(
        topic=topic,
        directory=str(directory.absolute()),
        job=job,
        batch=batch,
        columns=columns_text(columns),
        new_fields=str(new_fields),
        values=values,
        letters=None if letters is None else str(letters.absolute()),
        version=odradek.__version__,
    )


def origin_of(report: TaskReport, topic: str) -> str:
    assert report.first_bad is not None
    partition, offset, reason = report.first_bad
    return f"offset {offset} of {topic}-{partition} ({reason})"
