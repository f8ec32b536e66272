"""Searches the key columns of all Parquet files in tables for erased keys.

This includes files that are no longer part of the table, because their data still exists.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.state import DIRECTORY
from odradek.pipelines.jobs.tables.table import TableFormat, open_table
from odradek.text.errors import UserError

# Rows have keys in `_key`, staged dead letters in `key`.
_KEY_COLUMNS: Final = ("_key", "key")
# A directory with one of these subdirectories is a table.
_MARKS: Final = ("_delta_log", "_spark_metadata", DIRECTORY)
_BATCH_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class TableCopies:
    directory: Path
    records: int
    live_records: int
    """The part in files of the current table."""


def table_copies(roots: Iterable[Path], erased: ErasedKeys) -> list[TableCopies]:
    """Find tables below the roots that contain erased keys."""
    found = []
    for table in dict.fromkeys(one for root in roots for one in _tables(root)):
        listed = _list_files(table)
        counts = {file: _count(file, erased) for file in sorted(table.rglob("*.parquet"))}
        records = sum(counts.values())
        if records:
            live = sum(count for file, count in counts.items() if listed is None or str(file) in listed)
            found.append(TableCopies(table, records, live))
    return found


def check_roots(roots: Iterable[Path]) -> None:
    for root in roots:
        if not root.is_dir():
            raise UserError(
                f"--tables: directory {str(root)!r} does not exist. Choose a directory that contains tables."
            )


def _tables(root: Path) -> Iterator[Path]:
    """Yield the tables at and below the root."""
    for place, directories, _ in os.walk(root.absolute()):
        if any(mark in directories for mark in _MARKS):
            yield Path(place)
            # Subdirectories of a table belong to it.
            directories.clear()
        directories.sort()


def _list_files(table: Path) -> set[str] | None:
    """Return None if the table has no log: then all files are part of it."""
    if (table / "_delta_log").is_dir():
        return set(open_table(TableFormat.DELTA, table).files())
    if (table / "_spark_metadata").is_dir():
        return set(open_table(TableFormat.PARQUET, table).files())
    return None


def _count(file: Path, erased: ErasedKeys) -> int:
    try:
        with pq.ParquetFile(file) as opened:
            names = [name for name in _KEY_COLUMNS if name in opened.schema_arrow.names]
            names = [name for name in names if _is_bytes(opened.schema_arrow.field(name).type)]
            return sum(
                sum(pc.sum(erased.among(column)).as_py() or 0 for column in batch.columns)
                for batch in opened.iter_batches(_BATCH_ROWS, columns=names)
                if names
            )
    except (pa.ArrowInvalid, FileNotFoundError):
        # An incomplete file of a crashed task, or deleted in the meantime.
        return 0


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_binary(kind))
