"""Provides a job's schemas from files or a registry. Only the driver queries the registry.

Schemas are stored. Missing schemas are stored too, for the batch that needs them and before dead letters are sent, so
that a repeated batch has the same dead letters.
"""

import json
import re
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.ingest_task import WANTED_MAX
from odradek.pipelines.jobs.schema_files import read_schema_file
from odradek.pipelines.jobs.stored_schemas import WITHOUT_ID, StoredSchemas
from odradek.pipelines.jobs.tables.table import NO_BATCH
from odradek.pipelines.jobs.values import ValueKind, Values
from odradek.pipelines.schemas.framing import ID_MAX
from odradek.pipelines.schemas.registry import InvalidRegistryUrl, RegistryClient, RegistryUnavailable
from odradek.pipelines.schemas.schema import Schema, Undecodable
from odradek.text.errors import UserError, as_sentence

_WITH_ID: Final = re.compile(r"(\d{1,10})=(.+)", re.DOTALL)


class SchemaSupply:
    """Raises UserError for invalid settings."""

    def __init__(
        self,
        kind: ValueKind,
        directory: Path,
        *,
        registry: str | None,
        files: Collection[str],
        message: str | None,
        stores_unknown: bool,
    ) -> None:
        """`stores_unknown`: records with a missing schema become dead letters. Otherwise they stop the job, and may
        become rows in the next run.
        """
        self._kind: Final = kind
        self._kept: Final = StoredSchemas(directory)
        self._keeps_unknown: Final = stores_unknown
        self._unknown: tuple[int, dict[int, str]] = (NO_BATCH, {})
        self._given: Final = given_schemas(kind, files, message)
        self._registry: Final = open_registry(kind, registry, has_files=bool(files))

    def store_given(self) -> None:
        """Store the schemas of the files. Raises UserError if one has changed since the job started."""
        for schema_id, schema in self._given.items():
            known = self._kept.find(schema_id)
            if known is None:
                self._kept.keep(schema_id, schema)
            elif known != schema:
                which = "the schema" if schema_id == WITHOUT_ID else f"schema {schema_id}"
                raise UserError(f"--schema-file: {which} differs from the one the job started with. Start a new job.")

    def values(self, batch: int) -> Values:
        return Values(kind=self._kind, schemas=str(self._kept.directory.absolute()), unknown=self._unknown_of(batch))

    def fetch_missing(self, batch: int, wanted: Collection[int]) -> None:
        """Raises UserError if the registry is unavailable, so that records do not become dead letters because of it."""
        if len(wanted) > WANTED_MAX:
            raise UserError(
                f"Batch {batch} refers to more than {WANTED_MAX:,} unknown schemas. Check that the records were "
                "written with "
                "a schema registry."
            )
        unknown = dict(self._unknown_of(batch))
        for schema_id in sorted(wanted):
            try:
                self._kept.keep(schema_id, self._fetch(batch, schema_id))
            except Undecodable as error:
                unknown[schema_id] = str(error)
        self._unknown = batch, unknown
        if self._keeps_unknown and unknown:
            self._kept.directory.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps({"batch": batch, "unknown": unknown}) + "\n")

    def _fetch(self, batch: int, schema_id: int) -> Schema:
        if self._registry is None:
            raise Undecodable("no --schema-file given for it")
        try:
            return self._registry.schema(schema_id)
        except RegistryUnavailable as error:
            raise UserError(
                f"Cannot get schema {schema_id} for batch {batch}: {error}. Nothing of this batch was written. Run "
                "the job "
                "again when the registry is available."
            ) from None

    def _unknown_of(self, batch: int) -> dict[int, str]:
        if self._unknown[0] != batch:
            found = json.loads(self._file.read_text()) if self._file.is_file() else None
            known = found["unknown"] if found is not None and found["batch"] == batch else {}
            self._unknown = batch, {int(schema_id): why for schema_id, why in known.items()}
        return self._unknown[1]

    @property
    def _file(self) -> Path:
        return self._kept.directory / "unknown.json"


def given_schemas(kind: ValueKind, files: Collection[str], message: str | None) -> Mapping[int, Schema]:
    """Return the schemas of the files by ID. Raises UserError."""
    if message is not None and kind is not ValueKind.PROTOBUF:
        raise UserError("--message requires --values protobuf.")
    if kind is ValueKind.JSON:
        if files:
            raise UserError("--schema-file requires --values avro, protobuf or registry.")
        return {}
    _check_installed()
    if kind is ValueKind.REGISTRY:
        found = {}
        for one in files:
            parts = _WITH_ID.fullmatch(one)
            if parts is None or int(parts[1]) > ID_MAX:
                raise UserError(f"--schema-file {one!r}: write ID=FILE with --values registry.")
            found[int(parts[1])] = read_schema_file(Path(parts[2]), message=None, is_framed=True)
        return found
    if len(files) != 1:
        raise UserError(f"--values {kind} requires one --schema-file FILE.")
    schema = read_schema_file(Path(next(iter(files))), message=message, is_framed=False)
    if schema.type != kind.upper():
        raise UserError(f"--schema-file: the schema type is {schema.type.lower()}, not {kind}.")
    return {WITHOUT_ID: schema}


def _check_installed() -> None:
    for name in ("fastavro", "google.protobuf"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise UserError(f"{error.name} is not installed. Install it with pip install 'odradek[jobs]'.") from None


def open_registry(kind: ValueKind, address: str | None, *, has_files: bool) -> RegistryClient | None:
    if kind is not ValueKind.REGISTRY or (address is None and has_files):
        return None
    if address is None:
        raise UserError("--values registry requires --schema-registry URL or --schema-file ID=FILE.")
    try:
        return RegistryClient(address)
    except InvalidRegistryUrl as error:
        # Without the URL, which may contain a password.
        raise UserError(as_sentence(f"--schema-registry: {error}")) from None
