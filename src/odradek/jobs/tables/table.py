"""What a job asks of a table, and how one is opened."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from odradek.cli.errors import UserError


class TableFormat(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"


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


def open_table(format: TableFormat, directory: Path) -> Table:
    if format is TableFormat.PARQUET:
        from odradek.jobs.tables.parquet import ParquetTable

        return ParquetTable(directory)
    try:
        from odradek.jobs.tables.delta import DeltaLakeTable
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed here: pip install 'odradek[jobs]'") from None
    return DeltaLakeTable(directory)


def taken_by_another(job: str, batch: int) -> UserError:
    return UserError(
        f"another run of job {job!r} has committed batch {batch}: let one of them run; nothing was written twice"
    )
