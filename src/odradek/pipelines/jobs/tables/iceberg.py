"""An Iceberg table, with PyIceberg. The marker is a table property, set in the commit that adds the files."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table as CatalogTable
from pyiceberg.table import TableProperties

from odradek.pipelines.jobs.tables.catalog_errors import UNKNOWN_OUTCOMES, explain_catalog_errors, secrets_of
from odradek.pipelines.jobs.tables.catalogs import CatalogPlace, catalog_settings, open_catalog
from odradek.pipelines.jobs.tables.table import NO_BATCH, DataFile, committed_by_another_run, missing_columns, one_line
from odradek.text.errors import UserError

# Other writers may commit at the same time. Each attempt reloads the table.
_CONFLICTS_MAX: Final = 50
_PAUSE_S: Final = 0.1
# A restarting catalog does not respond for a while.
_NO_RESPONSE_MAX: Final = 10
_NO_RESPONSE_PAUSE_S: Final = 1.0
_LOCAL: Final = "file://"


class IcebergTable:
    def __init__(self, directory: Path, place: CatalogPlace | None = None) -> None:
        """`place` defaults to the stored one."""
        self._directory: Final = directory
        self._place: Final = CatalogPlace.of(directory, place)
        self._opened: Catalog | None = None

    def check_new(self) -> None:
        if self._find() is None and self._directory.is_dir() and any(self._directory.glob("*.parquet")):
            raise UserError(
                f"{str(self._directory)!r} contains Parquet files but is not the Iceberg table {self._place}. Choose "
                "another directory."
            )
        self._place.keep(self._directory)

    def last_batch(self, job: str) -> int:
        table = self._find()
        return NO_BATCH if table is None else _marker(table, job)

    def shape(self, columns: Any) -> None:
        def attempt() -> None:
            table = self._load()
            if table is None:
                self._create(columns)
                return
            missing = missing_columns(_arrow(table), columns, lambda found, field: found.type == _plain(field.type))
            if missing:
                with table.update_schema() as update:
                    update.union_by_name(pa.schema(missing))

        self._repeat(attempt, f"Cannot change table {self._place}")

    def commit(self, job: str, batch: int, files: Sequence[DataFile]) -> None:
        paths = [_uri(self._directory / one.name) for one in files]

        def attempt() -> None:
            table = self._load()
            if table is None:
                raise UserError(
                    f"Table {self._place} was deleted while the job was running. Restore it, or start a new job."
                )
            if _marker(table, job) >= batch:
                if paths and paths[0].removeprefix(_LOCAL) not in _files(table):
                    raise committed_by_another_run(job, batch)
                return
            # Only commit to the loaded version: a concurrent commit may be this same batch, and a retry by the library
            # would add the files again. This changes the loaded metadata only, not the table.
            table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
            marker = {"odradek.job": job, "odradek.batch": str(batch)}
            with table.transaction() as change:
                change.set_properties({_property(job): str(batch)})
                if paths:
                    change.add_files(paths, snapshot_properties=marker, check_duplicate_files=False)
                else:
                    # A REST catalog compares snapshots, not versions. Without a new snapshot, a delayed commit could
                    # overwrite the marker of a later batch.
                    with change.update_snapshot(snapshot_properties=marker).fast_append():
                        pass

        self._repeat(attempt, f"Cannot commit batch {batch}")

    def files(self) -> list[str]:
        table = self._find()
        if table is None:
            raise UserError(f"Iceberg table {self._place} does not exist. Check the directory.")
        return _files(table)

    def columns(self) -> Any | None:
        table = self._find()
        return None if table is None else _arrow(table)

    def _create(self, columns: Any) -> None:
        catalog = self._catalog()
        location = _uri(self._directory)
        try:
            catalog.create_table(self._place.identifier, schema=columns, location=location)
        except NoSuchNamespaceError:
            # Create the namespace only if it is missing, because that may need more permissions.
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(self._place.namespace)
            catalog.create_table(self._place.identifier, schema=columns, location=location)

    def _repeat(self, attempt: Callable[[], None], problem: str) -> None:
        """Retry conflicts and missing responses. Each attempt checks the current state of the table."""
        conflicts = no_responses = 0
        with self._explain_errors():
            while True:
                try:
                    attempt()
                    return
                except (CommitFailedException, TableAlreadyExistsError) as error:
                    conflicts += 1
                    if conflicts == _CONFLICTS_MAX:
                        raise UserError(f"{problem} ({one_line(error)}). Run the job again.") from None
                    time.sleep(_PAUSE_S)
                except UNKNOWN_OUTCOMES:
                    no_responses += 1
                    if no_responses == _NO_RESPONSE_MAX:
                        raise
                    time.sleep(_NO_RESPONSE_PAUSE_S)

    def _find(self) -> CatalogTable | None:
        with self._explain_errors():
            return self._load()

    def _explain_errors(self) -> AbstractContextManager[None]:
        return explain_catalog_errors(self._place.address or "in the table's directory", self._secrets)

    @cached_property
    def _secrets(self) -> list[str]:
        address = self._place.address
        return [] if address is None else secrets_of(catalog_settings(address)[1])

    def _load(self) -> CatalogTable | None:
        try:
            return self._catalog().load_table(self._place.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._opened = open_catalog(self._place, self._directory)
        return self._opened


def _files(table: CatalogTable) -> list[str]:
    found = []
    for task in table.scan().plan_files():
        if task.delete_files:
            raise UserError("The table has delete files, which jobs cannot read. Compact the table first.")
        found.append(task.file.file_path.removeprefix(_LOCAL))
    return found


def _marker(table: CatalogTable, job: str) -> int:
    return int(table.properties.get(_property(job), NO_BATCH))


def _property(job: str) -> str:
    return f"odradek.batch.{job}"


def _uri(path: Path) -> str:
    """Return an unescaped file URI, as Iceberg libraries expect."""
    return f"{_LOCAL}{path.absolute()}"


def _arrow(table: CatalogTable) -> Any:
    """Return the schema without Iceberg's field IDs."""
    found = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.schema([pa.field(one.name, _plain(one.type)) for one in found])


def _plain(kind: Any) -> Any:
    """Replace large types, which Iceberg does not distinguish."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _plain(one.type)) for one in kind])
    return kind
