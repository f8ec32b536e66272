"""Converts values from JSON, Avro and Protobuf to column types. Pure."""

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from odradek.pipelines.jobs.columns import type_text

_TEXT_CHARACTERS_MAX: Final = 60


def shorten_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=_plain)
    return text if len(text) <= _TEXT_CHARACTERS_MAX else text[:_TEXT_CHARACTERS_MAX] + "…"


def converter(type_: Any) -> Callable[[Any], Any]:
    """Return a function that converts a non-null value for pyarrow. It raises ValueError."""
    if pa.types.is_list(type_):
        return _list_converter(type_)
    if pa.types.is_struct(type_):
        return _struct_converter(type_)
    convert = _SIMPLE.get(type_) or (_decimal if pa.types.is_decimal(type_) else None)
    if convert is None:
        raise TypeError(f"Column type {type_} is not supported.")
    name = type_text(type_)

    def convert_checked(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, InvalidOperation):
            raise ValueError(f"{shorten_json(value)} is not a {name}") from None

    return convert_checked


def _list_converter(type_: Any) -> Callable[[Any], Any]:
    of_element = converter(type_.value_type)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError(f"{shorten_json(value)} is not an array")
        return [None if one is None else of_element(one) for one in value]

    return convert


def _struct_converter(type_: Any) -> Callable[[Any], Any]:
    of_field = {one.name: converter(one.type) for one in (type_.field(n) for n in range(type_.num_fields))}

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"{shorten_json(value)} is not an object")
        return {name: None if (one := value.get(name)) is None else of(one) for name, of in of_field.items()}

    return convert


def _text(value: Any) -> str:
    """Return strings as they are and other values as JSON, as Spark does."""
    if type(value) is str:
        return value
    if type(value) not in _OF_JSON:
        return _plain(value)
    try:
        return _json(value)
    except ValueError:
        finite = _finite(value)
        return finite if type(finite) is str else _json(finite)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain, allow_nan=False)


def _plain(value: Any) -> str:
    """Convert values that JSON cannot represent."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
    raise ValueError(f"{type(value).__name__} cannot be written as text")


def _finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON does not have, as Protobuf's JSON mapping does."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _finite(one) for name, one in value.items()}
        case list():
            return [_finite(one) for one in value]
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise ValueError


def _number(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise ValueError
    return float(value)


def _decimal(value: Any) -> Decimal:
    if type(value) is Decimal:
        return value
    if type(value) not in (int, float, str):
        raise ValueError
    return Decimal(str(value))


def _bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is not str:
        raise ValueError
    return base64.b64decode(value, validate=True)


def _date(value: Any) -> date:
    if type(value) is date:
        return value
    if type(value) is not str:
        raise ValueError
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    """Timestamps without a time zone are in UTC."""
    if type(value) is str:
        value = datetime.fromisoformat(value)
    if type(value) is not datetime:
        raise ValueError
    return value if value.tzinfo else value.replace(tzinfo=UTC)


_OF_JSON: Final = (bool, int, float, list, dict)
# Values of these types need no conversion. pyarrow checks their range.
AS_THEY_ARE: Final[Mapping[Any, type]] = {
    pa.bool_(): bool,
    pa.int32(): int,
    pa.int64(): int,
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
}
_SIMPLE: Final[Mapping[Any, Callable[[Any], Any]]] = {
    pa.bool_(): _boolean,
    pa.int32(): _whole,
    pa.int64(): _whole,
    pa.float32(): _number,
    pa.float64(): _number,
    pa.string(): _text,
    pa.binary(): _bytes,
    pa.date32(): _date,
    pa.timestamp("us", "UTC"): _timestamp,
}
