"""The interface of tables, and how to open one."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from odradek.text.errors import UserError

if TYPE_CHECKING:
    from odradek.pipelines.jobs.tables.catalogs import CatalogPlace


class TableFormat(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


class DataFile(NamedTuple):
    """A file written and synced by a task. `name` is relative to the table."""

    name: str
    size_bytes: int
    modified_ms: int
    rows: int


NO_BATCH = -1


class Table(Protocol):
    def check_new(self) -> None:
        """Called before a job's first batch. Raises UserError if the directory has other contents."""

    def last_batch(self, job: str) -> int:
        """Return the job's last committed batch, or NO_BATCH."""

    def shape(self, columns: Any) -> None:
        """Create the table or add missing columns. Raises UserError if a column has another type."""

    def commit(self, job: str, batch: int, files: Sequence[DataFile]) -> None:
        """Commit the files atomically and once. Raises UserError if another run has committed this batch."""

    def files(self) -> list[str]:
        """Return the paths of all committed files."""

    def columns(self) -> Any | None:
        """Return the pyarrow schema, if the table stores it."""


def open_table(format: TableFormat, directory: Path, place: "CatalogPlace | None" = None) -> Table:
    """`place` is for new Iceberg tables."""
    try:
        if format is TableFormat.PARQUET:
            from odradek.pipelines.jobs.tables.parquet import ParquetTable

            return ParquetTable(directory)
        if format is TableFormat.ICEBERG:
            from odradek.pipelines.jobs.tables.iceberg import IcebergTable

            return IcebergTable(directory, place)
        from odradek.pipelines.jobs.tables.delta import DeltaLakeTable
    except ModuleNotFoundError as error:
        extra = "iceberg" if format is TableFormat.ICEBERG else "jobs"
        raise UserError(f"{error.name} is not installed. Install it with pip install 'odradek[{extra}]'.") from None
    return DeltaLakeTable(directory)


def missing_columns(present: Any, wanted: Any, is_same: Callable[[Any, Any], bool]) -> list[Any]:
    """Return the missing columns. Raises UserError if a column has another type."""
    by_lower = {one.name.lower(): one for one in present}
    missing = []
    for field in wanted:
        found = by_lower.get(field.name.lower())
        if found is None:
            missing.append(field)
        elif found.name != field.name or not is_same(found, field):
            raise UserError(
                f"Column {found.name!r} of the table has type {found.type}, but the job's column {field.name!r} has "
                "type "
                f"{field.type}. Use a --schema that matches, or choose another table."
            )
    return missing


def committed_by_another_run(job: str, batch: int) -> UserError:
    return UserError(
        f"Another run of job {job!r} has committed batch {batch}. Nothing was written twice. Keep only one run."
    )


def one_line(error: BaseException | None) -> str:
    """Join the lines of a library's message."""
    return " ".join(str(error).split())
