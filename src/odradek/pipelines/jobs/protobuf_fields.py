"""The fields of Protobuf messages and their column types. Pure.

An unset field is null if Protobuf tracks its presence, otherwise it has its default.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from odradek.pipelines.jobs.columns import ORIGIN
from odradek.pipelines.jobs.rows import Fields, ReadFields
from odradek.pipelines.schemas.protobuf import ProtobufReader
from odradek.pipelines.schemas.schema import Schema, Undecodable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_UNSIGNED_LONG: Final = pa.decimal128(20, 0)


class _Field(NamedTuple):
    name: str
    type: Any
    can_be_left_out: bool
    take: Callable[[Any], Any] | None
    """Converts the field's value. None: take it from the message's JSON form."""
    empty: Any = None
    """The value if JSON omits the field because it is empty."""


class _Form(NamedTuple):
    fields: list[_Field]
    types: dict[str, Any]
    wants_json: bool


def protobuf_fields(schema: Schema) -> ReadFields:
    """Return a reader for the schema. Both may raise Undecodable."""
    reader = ProtobufReader(schema)
    forms: dict[str, _Form] = {}

    def read(payload: bytes) -> Fields:
        message = reader.read(payload)
        name = message.DESCRIPTOR.full_name
        if name not in forms:
            fields = [_field(one) for one in message.DESCRIPTOR.fields]
            forms[name] = _Form(fields, {one.name: one.type for one in fields}, any(one.take is None for one in fields))
        form = forms[name]
        as_json = reader.as_json(message) if form.wants_json else {}
        return Fields({one.name: _value(message, one, as_json) for one in form.fields}, form.types)

    return read


def _value(message: Any, field: _Field, as_json: Mapping[str, Any]) -> Any:
    if field.can_be_left_out and not message.HasField(field.name):
        return None
    if field.take is None:
        return as_json.get(field.name, field.empty)
    try:
        return field.take(getattr(message, field.name))
    except (OverflowError, ValueError) as error:
        raise Undecodable(f"field {field.name}: {error}") from None


def _field(field: Any) -> _Field:
    type_, take = _one(field)
    if take is not None and field.is_repeated:
        of_one = take
        return _Field(field.name, pa.list_(type_), False, lambda values: [of_one(one) for one in values])
    empty: Any = None
    if field.is_repeated:
        empty = {} if field.message_type.GetOptions().map_entry else []
    return _Field(field.name, type_, field.has_presence, take, empty)


def _one(field: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return column type and converter. Nested values stay JSON text, so that their schema may change."""
    from google.protobuf.descriptor import FieldDescriptor as kinds

    if field.cpp_type == kinds.CPPTYPE_MESSAGE:
        name = field.message_type.full_name
        if name in _WRAPPERS:
            return _one(field.message_type.fields_by_name["value"])[0], _unwrap
        return (ORIGIN.field("_timestamp").type, _time) if name == _TIMESTAMP else (pa.string(), None)
    if field.cpp_type == kinds.CPPTYPE_ENUM:
        names = {one.number: one.name for one in field.enum_type.values}
        return pa.string(), lambda number: names.get(number, str(number))
    if field.type == kinds.TYPE_BYTES:
        return pa.binary(), _itself
    simple = {
        kinds.CPPTYPE_BOOL: pa.bool_(),
        kinds.CPPTYPE_INT32: pa.int64(),
        kinds.CPPTYPE_UINT32: pa.int64(),
        kinds.CPPTYPE_INT64: pa.int64(),
        kinds.CPPTYPE_UINT64: _UNSIGNED_LONG,
        kinds.CPPTYPE_FLOAT: pa.float64(),
        kinds.CPPTYPE_DOUBLE: pa.float64(),
        kinds.CPPTYPE_STRING: pa.string(),
    }
    return simple[field.cpp_type], _itself


def _itself(value: Any) -> Any:
    return value


def _unwrap(value: Any) -> Any:
    return value.value


def _time(value: Any) -> datetime:
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
