"""How values are decoded: as JSON, with one schema, or with the schema ID in the value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from odradek.pipelines.jobs.avro_fields import avro_fields
from odradek.pipelines.jobs.protobuf_fields import protobuf_fields
from odradek.pipelines.jobs.rows import BadRecord, Fields, ReadFields, SchemaRequired, read_json
from odradek.pipelines.jobs.stored_schemas import WITHOUT_ID, StoredSchemas
from odradek.pipelines.schemas.framing import ID_MAX, payload_of, schema_id_of
from odradek.pipelines.schemas.schema import AVRO, JSON, PROTOBUF, Schema, Undecodable

# The size of a task's cache, which is cleared when it is full.
_READERS_MAX: Final = 500


class ValueKind(StrEnum):
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    REGISTRY = "registry"
    """Framed values. The schema determines the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Sent to every task."""

    kind: ValueKind = ValueKind.JSON
    schemas: str = ""
    """The directory of stored schemas."""
    unknown: Mapping[int, str] = field(default_factory=dict)
    """Missing schemas and the reasons."""

    def reader(self) -> ReadFields:
        if self.kind is ValueKind.JSON:
            return read_json
        kept = StoredSchemas(Path(self.schemas))
        if self.kind is ValueKind.REGISTRY:
            return framed_reader(kept.find, self.unknown)
        schema = kept.find(WITHOUT_ID)
        if schema is None:
            raise FileNotFoundError(f"The job's schema is not in {self.schemas!r}. Restore the job's state.")
        return plain_reader(schema)


def plain_reader(schema: Schema) -> ReadFields:
    """Return a reader for values without framing."""
    return _with_reason(fields_reader(schema), "")


def framed_reader(find: Callable[[int], Schema | None], unknown: Mapping[int, str] | None = None) -> ReadFields:
    """The reader raises SchemaRequired for a schema that is neither found nor known to be missing."""
    return _FramedReader(find, unknown or {})


def fields_reader(schema: Schema) -> ReadFields:
    """Return a reader for the schema. Both may raise Undecodable."""
    kinds: dict[str, Callable[[Schema], ReadFields]] = {
        AVRO: avro_fields,
        PROTOBUF: protobuf_fields,
        JSON: lambda schema: read_json,
    }
    if schema.type not in kinds:
        raise Undecodable(f"schema type {schema.type} is not supported")
    return kinds[schema.type](schema)


class _FramedReader:
    def __init__(self, find: Callable[[int], Schema | None], unknown: Mapping[int, str]) -> None:
        self._find: Final = find
        self._unknown: Final = unknown
        self._readers: Final[dict[int, ReadFields]] = {}

    def __call__(self, value: bytes) -> Fields:
        schema_id = schema_id_of(value)
        if schema_id is None:
            raise BadRecord("does not start with a schema ID")
        read = self._readers.get(schema_id)
        if read is None:
            read = self._open(schema_id)
            if len(self._readers) >= _READERS_MAX:
                self._readers.clear()
            self._readers[schema_id] = read
        return read(payload_of(value))

    def _open(self, schema_id: int) -> ReadFields:
        if schema_id > ID_MAX:
            return _reject_all(f"{schema_id} is not a schema ID")
        if schema_id in self._unknown:
            return _reject_all(f"schema {schema_id}: {self._unknown[schema_id]}")
        schema = self._find(schema_id)
        if schema is None:
            raise SchemaRequired(schema_id)
        try:
            return _with_reason(fields_reader(schema), f"schema {schema_id}: ")
        except Undecodable as error:
            return _reject_all(f"schema {schema_id}: {error}")


def _with_reason(read: ReadFields, which: str) -> ReadFields:
    def read_or_reject(payload: bytes) -> Fields:
        try:
            return read(payload)
        except Undecodable as error:
            raise BadRecord(f"{which}{error}") from None

    return read_or_reject


def _reject_all(why: str) -> ReadFields:
    def reject(payload: bytes) -> Fields:
        raise BadRecord(why)

    return reject
