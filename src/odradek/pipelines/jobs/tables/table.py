"""What a job asks of a table, and how one is opened."""

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
    """Written, and on the disk, by a task. `name` is relative to the table."""

    name: str
    size_bytes: int
    modified_ms: int
    rows: int


NO_BATCH = -1


class Table(Protocol):
    def check_new(self) -> None:
        """Before the first batch of a job. Raises UserError if something else is there."""

    def last_batch(self, job: str) -> int:
        """The number of the last batch of this job that counts; NO_BATCH before the first."""

    def shape(self, columns: Any) -> None:
        """Creates the table, or adds the columns that it lacks. Raises UserError if others are of another type."""

    def commit(self, job: str, batch: int, files: Sequence[DataFile]) -> None:
        """All files or none, once. If this batch counts already it is with these files, or else another run has
        committed it meanwhile, which raises UserError.
        """

    def files(self) -> list[str]:
        """The paths of all files that count now."""

    def columns(self) -> Any | None:
        """The pyarrow schema, where the table knows it."""


def open_table(format: TableFormat, directory: Path, place: "CatalogPlace | None" = None) -> Table:
    """`place` is an Iceberg table's, and need not be said again."""
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
    """Those of `wanted` that the table lacks. Raises UserError if it has one that is of another type."""
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
    """Of a library whose messages have several."""
    return " ".join(str(error).split())
