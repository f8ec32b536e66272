"""How a stream's values are decoded: as JSON, with one schema, or with the schemas of a registry.

Tasks query the registry themselves, because a stream cannot wait for its driver.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from odradek.pipelines.jobs.rows import ReadFields, read_json
from odradek.pipelines.jobs.schema_supply import given_schemas, open_registry
from odradek.pipelines.jobs.stored_schemas import WITHOUT_ID
from odradek.pipelines.jobs.values import ValueKind, framed_reader, plain_reader
from odradek.pipelines.schemas.registry import RegistryClient, RegistryUnavailable
from odradek.pipelines.schemas.schema import Schema, Undecodable
from odradek.text.errors import UserError

KEYS: Final = ("values", "schema_file", "message", "schema_registry")
REGISTRY_VARIABLE: Final = "ODRADEK_SCHEMA_REGISTRY"
_OPTION: Final = re.compile(r"--([a-z-]+)")
_WITH_ID: Final = re.compile(r"(\d+=)?(.*)", re.DOTALL)


class SchemaMissing(Exception):
    """A record's schema is not available. It may be later, so the stream stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceValues:
    """Sent to every task."""

    kind: ValueKind = ValueKind.JSON
    schemas: Mapping[int, Schema] = field(default_factory=dict)
    registry: str | None = field(default=None, repr=False)
    """The URL, which may contain a password."""

    def reader(self) -> ReadFields:
        if self.kind is ValueKind.JSON:
            return read_json
        if self.kind is ValueKind.REGISTRY:
            return framed_reader(self._finder())
        return plain_reader(self.schemas[WITHOUT_ID])

    def _finder(self) -> Callable[[int], Schema]:
        registry = None if self.registry is None else RegistryClient(self.registry)

        def find(schema_id: int) -> Schema:
            known = self.schemas.get(schema_id)
            if known is not None:
                return known
            if registry is None:
                raise SchemaMissing(f"Schema {schema_id} of a record is unknown. Add it with schema_file.")
            try:
                return registry.schema(schema_id)
            except (RegistryUnavailable, Undecodable) as error:
                raise SchemaMissing(f"Cannot get schema {schema_id} of a record: {error}.") from None

        return find


def read_values(
    kind: str, files: list[str], message: str | None, registry: str | None, directory: Path
) -> SourceValues:
    """Parse the settings of a source. Files are relative to the directory. Raises UserError."""
    if kind not in list(ValueKind):
        raise UserError(f"values: {kind!r} is invalid, use one of {', '.join(ValueKind)}")
    of_kind = ValueKind(kind)
    if of_kind is ValueKind.REGISTRY:
        registry = registry or os.environ.get(REGISTRY_VARIABLE)
    elif registry is not None:
        raise UserError("schema_registry requires values: registry")
    try:
        schemas = given_schemas(of_kind, [_resolve_path(one, directory) for one in files], message)
        # Validates the URL.
        open_registry(of_kind, registry, has_files=bool(files))
    except UserError as error:
        # Replace the names of command-line options by the keys of the file.
        raise UserError(_OPTION.sub(lambda found: found[1].replace("-", "_"), str(error))) from None
    return SourceValues(kind=of_kind, schemas=schemas, registry=registry)


def _resolve_path(file: str, directory: Path) -> str:
    parts = _WITH_ID.fullmatch(file)
    assert parts is not None
    return f"{parts[1] or ''}{directory / parts[2]}"
