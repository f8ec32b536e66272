"""Parquet files with `_spark_metadata`, the log of Spark's file sink.

Spark reads only the files in the log, so that each batch is visible completely or not at all. Other readers also see
the files of failed batches. The log is the marker: it has one entry per batch, of one job.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

from odradek.pipelines.jobs.atomic_files import write_new
from odradek.pipelines.jobs.tables.table import NO_BATCH, DataFile, committed_by_another_run
from odradek.text.errors import UserError

_LOG: Final = "_spark_metadata"
_VERSION: Final = "v1"
_COMPACT: Final = ".compact"
# Spark's default: every tenth entry contains all entries before it.
_COMPACT_INTERVAL: Final = 10


class ParquetTable:
    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory
        self._log: Final = directory / _LOG

    def last_batch(self, job: str) -> int:
        return max(self._entries(), default=NO_BATCH)

    def shape(self, columns: Any) -> None:
        self._log.mkdir(parents=True, exist_ok=True)

    def check_new(self) -> None:
        if not self._log.is_dir() and self._directory.is_dir() and any(self._directory.glob("*.parquet")):
            raise UserError(
                f"{str(self._directory)!r} contains Parquet files without {_LOG}. Spark would no longer read these "
                "files. "
                "Choose another directory."
            )
        if self._entries():
            raise UserError(
                f"Table {str(self._directory)!r} belongs to another job, or this job's state is missing. A Parquet "
                "table "
                "belongs to one job. Choose another directory."
            )
        if (self._directory / "_delta_log").is_dir():
            raise UserError(f"{str(self._directory)!r} is a Delta table. Choose --as delta, or another directory.")

    def commit(self, job: str, batch: int, files: Sequence[DataFile]) -> None:
        last = self.last_batch(job)
        if last >= batch:
            if files and str((self._directory / files[0].name).absolute()) not in self.files():
                raise committed_by_another_run(job, batch)
            return
        if last != batch - 1:
            raise UserError(
                f"Table {str(self._directory)!r} ends with batch {last}, so batch {batch} cannot follow. Restore the "
                "table and "
                "the job's state from the same time."
            )
        lines = [self._line(one) for one in files]
        name = str(batch)
        if (batch + 1) % _COMPACT_INTERVAL == 0:
            lines = [*self._lines(), *lines]
            name += _COMPACT
        try:
            write_new(self._log / name, "\n".join([_VERSION, *lines]))
        except FileExistsError:
            raise committed_by_another_run(job, batch) from None

    def files(self) -> list[str]:
        if not self._log.is_dir():
            raise UserError(f"{str(self._directory)!r} is not a table: it has no {_LOG}. Check the directory.")
        return [unquote(urlparse(json.loads(line)["path"]).path) for line in self._lines()]

    def columns(self) -> Any | None:
        return None

    def _entries(self) -> dict[int, Path]:
        if not self._log.is_dir():
            return {}
        named = ((file.name.removesuffix(_COMPACT), file) for file in self._log.iterdir())
        return {int(number): file for number, file in named if number.isdigit()}

    def _lines(self) -> Iterator[str]:
        """Yield the log lines of all files, oldest first."""
        entries = self._entries()
        first = max((number for number, file in entries.items() if file.name.endswith(_COMPACT)), default=0)
        for number in sorted(entries):
            if number >= first:
                version, *lines = entries[number].read_text().split("\n")
                if version != _VERSION:
                    raise UserError(f"{str(entries[number])!r} has the unsupported version {version!r}.")
                yield from lines

    def _line(self, file: DataFile) -> str:
        return json.dumps(
            {
                "path": (self._directory / file.name).absolute().as_uri(),
                "size": file.size_bytes,
                "isDir": False,
                "modificationTime": file.modified_ms,
                "blockReplication": 1,
                "blockSize": 32 * 1024 * 1024,
                "action": "add",
            }
        )
