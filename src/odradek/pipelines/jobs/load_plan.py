"""Plans the files and batches of a load. The plan is stored, so that a repeated batch is the same.

If there is a Delta log or `_spark_metadata`, only the listed files are read.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.columns import ORIGIN
from odradek.pipelines.jobs.tables.table import TableFormat, open_table
from odradek.text.errors import UserError

_JSON_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")


class SourceKind(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    kind: SourceKind
    batches: tuple[tuple[str, ...], ...]

    @property
    def file_count(self) -> int:
        return sum(map(len, self.batches))

    def keep(self, file: Path) -> None:
        write_atomically(file, json.dumps({"kind": self.kind, "batches": self.batches}, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> "LoadPlan | None":
        if not file.is_file():
            return None
        found: dict[str, Any] = json.loads(file.read_text())
        return cls(SourceKind(found["kind"]), tuple(tuple(one) for one in found["batches"]))


def make_plan(source: Path, batch_bytes: int) -> LoadPlan:
    """Raises UserError if there is nothing to load."""
    kind = kind_of(source)
    files = sorted(_files(source, kind))
    if not files:
        raise UserError(f"{str(source)!r} has no files to load. Check the directory.")
    sized = [(file, os.stat(file).st_size) for file in files]
    return LoadPlan(kind, tuple(map(tuple, in_batches(sized, batch_bytes))))


def kind_of(source: Path) -> SourceKind:
    if not source.exists():
        raise UserError(f"{str(source)!r} does not exist. Choose a table's directory, or Parquet or JSON files.")
    if (source / "_delta_log").is_dir():
        return SourceKind.DELTA
    kinds = {_kind_of_file(file) for file in ([source] if source.is_file() else _walk(source))} - {None}
    if len(kinds) != 1:
        what = "both Parquet and JSON" if kinds else "neither Parquet nor JSON"
        raise UserError(f"{str(source)!r} contains {what} files. Choose a directory with one of the two.")
    found = kinds.pop()
    assert found is not None
    return found


def in_batches(sized: Iterable[tuple[str, int]], batch_bytes: int) -> Iterator[list[str]]:
    """Group consecutive files up to `batch_bytes`; larger files are alone. Pure."""
    batch: list[str] = []
    held = 0
    for file, size in sized:
        if batch and held + size > batch_bytes:
            yield batch
            batch, held = [], 0
        batch.append(file)
        held += size
    if batch:
        yield batch


def default_columns(names: list[str], key: str | None) -> tuple[str | None, list[str]]:
    """Return the key column and the value columns. For tables written by `ingest`, use the original keys and omit the
    origin columns.
    """
    if set(ORIGIN.names) <= set(names):
        return key or "_key", [name for name in names if name not in ORIGIN.names]
    return key, names


def _files(source: Path, kind: SourceKind) -> Iterator[str]:
    if kind is SourceKind.DELTA:
        yield from open_table(TableFormat.DELTA, source).files()
    elif (source / "_spark_metadata").is_dir():
        yield from open_table(TableFormat.PARQUET, source).files()
    elif source.is_file():
        yield str(source.absolute())
    else:
        for file in _walk(source):
            if _kind_of_file(file) is kind:
                yield str(file.absolute())


def _kind_of_file(file: Path) -> SourceKind | None:
    if file.name.endswith(".parquet"):
        return SourceKind.PARQUET
    return SourceKind.JSON if file.name.endswith(_JSON_SUFFIXES) else None


def _walk(directory: Path) -> Iterator[Path]:
    """Yield the data files. Names that start with _ or . are ignored, as in Spark."""
    for entry in sorted(directory.iterdir()):
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            yield from _walk(entry)
        else:
            yield entry
