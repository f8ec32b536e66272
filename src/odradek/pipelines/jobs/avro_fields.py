"""The fields of Avro records and their column types. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from odradek.pipelines.jobs.columns import ORIGIN, merge
from odradek.pipelines.jobs.rows import Fields, ReadFields
from odradek.pipelines.schemas.avro import AvroReader
from odradek.pipelines.schemas.schema import Schema, Undecodable

# Wide types, so that a field still fits its column after a later schema widens it.
_SIMPLE: Final[Mapping[str, Any]] = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
# Times without a date or time zone have no column type, so they stay text.
_LOGICAL: Final[Mapping[tuple[str, str], Any]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): ORIGIN.field("_timestamp").type,
    ("long", "timestamp-micros"): ORIGIN.field("_timestamp").type,
    ("long", "local-timestamp-millis"): pa.string(),
    ("long", "local-timestamp-micros"): pa.string(),
    ("int", "time-millis"): pa.string(),
    ("long", "time-micros"): pa.string(),
    ("string", "uuid"): pa.string(),
}
_PRECISION_MAX: Final = 38
_NESTED: Final = ("record", "error", "map", "array")


def avro_fields(schema: Schema) -> ReadFields:
    """Return a reader for the schema. Both may raise Undecodable."""
    reader = AvroReader(schema)
    top = _resolve(reader.parsed, reader.named)
    if not isinstance(top, dict) or top.get("type") not in ("record", "error"):
        raise Undecodable("its Avro schema is not a record")
    types = {one["name"]: _column_type(one["type"], reader.named) for one in top["fields"]}
    return lambda payload: Fields(reader.read(payload), types)


def _column_type(schema: Any, named: Mapping[str, Any]) -> Any | None:
    """Return None if the field is always null. Nested values stay JSON text, so that their schema may change."""
    schema = _resolve(schema, named)
    if isinstance(schema, list):
        found: Any = None
        for one in schema:
            found = merge(found, _column_type(one, named))
        return found
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "array":
        of = _column_type(schema["items"], named)
        return pa.string() if of is None or _nests(schema["items"], named) else pa.list_(of)
    if kind in _NESTED:
        return pa.string()
    if isinstance(schema, dict) and "logicalType" in schema:
        if schema["logicalType"] == "decimal" and kind in ("bytes", "fixed"):
            return _decimal(schema)
        found = _LOGICAL.get((kind, str(schema["logicalType"])))
        if found is not None:
            return found
    return _SIMPLE.get(kind)


def _resolve(schema: Any, named: Mapping[str, Any]) -> Any:
    return named[schema] if isinstance(schema, str) and schema in named else schema


def _nests(schema: Any, named: Mapping[str, Any]) -> bool:
    schema = _resolve(schema, named)
    if isinstance(schema, list):
        return any(_nests(one, named) for one in schema)
    return isinstance(schema, dict) and schema["type"] in _NESTED


def _decimal(schema: Mapping[str, Any]) -> Any:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is int and type(scale) is int and 0 <= scale <= precision <= _PRECISION_MAX and precision:
        return pa.decimal128(precision, scale)
    return pa.string()
