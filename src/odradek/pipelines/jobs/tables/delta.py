"""A Delta table, with delta-rs. The marker is a `txn` action in the commit that adds the files."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from odradek.pipelines.jobs.tables.table import NO_BATCH, DataFile, committed_by_another_run, missing_columns, one_line
from odradek.text.errors import UserError

# Other writers may commit at the same time. Each attempt reloads the table.
_TRIES_MAX: Final = 50
_PAUSE_S: Final = 0.1
# Reader features that make the data files alone insufficient.
_UNREADABLE: Final = ("deletionVectors", "columnMapping")


class DeltaLakeTable:
    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory

    def check_new(self) -> None:
        if self._open() is None and self._directory.is_dir() and any(self._directory.glob("*.parquet")):
            raise UserError(
                f"{str(self._directory)!r} contains Parquet files but is not a Delta table. Choose another directory, "
                "or "
                "--as parquet."
            )

    def last_batch(self, job: str) -> int:
        table = self._open()
        return NO_BATCH if table is None else _marker(table, job)

    def shape(self, columns: Any) -> None:
        for _ in range(_TRIES_MAX):
            table = self._open()
            try:
                if table is None:
                    DeltaTable.create(str(self._directory), schema=Schema.from_arrow(columns), mode="error")
                    return
                missing = missing_columns(_arrow(table), columns, _is_same)
                if missing:
                    table.alter.add_columns(
                        Schema.from_arrow(pa.schema(missing)).fields,
                        commit_properties=CommitProperties(max_commit_retries=0),
                    )
                return
            except DeltaError as error:
                conflict = error
                time.sleep(_PAUSE_S)
        raise UserError(f"Cannot change table {str(self._directory)!r} ({one_line(conflict)}). Run the job again.")

    def commit(self, job: str, batch: int, files: Sequence[DataFile]) -> None:
        added: list[AddAction | RemoveAction] = [
            AddAction(
                path=one.name,
                size=one.size_bytes,
                partition_values={},
                modification_time=one.modified_ms,
                data_change=True,
                stats=json.dumps({"numRecords": one.rows}),
            )
            for one in files
        ]
        properties = CommitProperties(
            custom_metadata={"odradek": {"job": job, "batch": batch}},
            # Only commit to the loaded version: a concurrent commit may be this same batch.
            max_commit_retries=0,
            app_transactions=[Transaction(_app_id(job), batch)],
        )
        conflict: DeltaError | None = None
        for _ in range(_TRIES_MAX):
            table = self._open()
            if table is None:
                raise UserError(
                    f"Table {str(self._directory)!r} was deleted while the job was running. Restore it, or start a "
                    "new job."
                )
            if _marker(table, job) >= batch:
                if files and not self._has(files[0]):
                    raise committed_by_another_run(job, batch)
                return
            try:
                table.create_write_transaction(added, "append", table.schema(), commit_properties=properties)
                return
            except DeltaError as error:
                # The outcome may be unknown. The next attempt checks the marker.
                conflict = error
                time.sleep(_PAUSE_S)
        raise UserError(f"Cannot commit batch {batch} ({one_line(conflict)}). Run the job again.")

    def files(self) -> list[str]:
        table = self._open()
        if table is None:
            raise UserError(f"{str(self._directory)!r} is not a Delta table. Check the directory.")
        protocol = table.protocol()
        hidden = [one for one in protocol.reader_features or () if one in _UNREADABLE]
        if hidden:
            raise UserError(f"The table uses {', '.join(hidden)}, which jobs cannot read. Rewrite it without.")
        return [unquote(urlparse(one).path) if one.startswith("file:") else one for one in table.file_uris()]

    def columns(self) -> Any | None:
        table = self._open()
        return None if table is None else _arrow(table)

    def _has(self, file: DataFile) -> bool:
        return any(one.rsplit("/", 1)[-1] == file.name for one in self.files())

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(str(self._directory))
        except TableNotFoundError:
            return None


def _marker(table: DeltaTable, job: str) -> int:
    found = table.transaction_version(_app_id(job))
    return NO_BATCH if found is None else int(found)


def _app_id(job: str) -> str:
    return f"odradek.{job}"


def _arrow(table: DeltaTable) -> Any:
    return pa.schema(table.schema().to_arrow())


def _is_same(found: Any, field: Any) -> bool:
    return bool(
        Schema.from_arrow(pa.schema([found])) == Schema.from_arrow(pa.schema([field.with_nullable(found.nullable)]))
    )
