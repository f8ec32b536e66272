"""JSON records to columns: what fits becomes a row, what does not is named with its reason. Pure."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from odradek.jobs.columns import infer, merge, type_text, why_no_column

# Schema registries' clients put a zero and the number of a schema before the value. No JSON begins with a zero byte.
_REGISTRY_FRAME_BYTES: Final = 5
_SHOWN_CHARACTERS_MAX: Final = 60


class NewFields(StrEnum):
    """What becomes of a field that has no column."""

    ADD = "add"
    IGNORE = "ignore"
    REFUSE = "refuse"


class BadRecord(ValueError):
    """Why a record is no row."""


@dataclass(slots=True)
class DecodedRows:
    good: list[int] = field(default_factory=list)
    """Which of the values are rows, in order."""
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Which are not, and why."""
    arrays: list[Any] = field(default_factory=list)
    """Of the good ones, one for each column."""
    new: dict[str, Any] = field(default_factory=dict)
    """Types of fields that have no column."""


class JsonDecoder:
    def __init__(self, columns: Any, new_fields: NewFields) -> None:
        self._columns: Final = columns
        self._new_fields: Final = new_fields
        self._names: Final = frozenset(columns.names)
        self._converters: Final = [(one.name, _AS_THEY_ARE.get(one.type), _converter(one.type)) for one in columns]

    def decode(self, values: Sequence[bytes | None]) -> DecodedRows:
        decoded = DecodedRows()
        rows: list[list[Any]] = []
        for index, value in enumerate(values):
            try:
                rows.append(self._row(value, decoded.new))
            except BadRecord as error:
                decoded.bad.append((index, str(error)))
            else:
                decoded.good.append(index)
        try:
            decoded.arrays = self._arrays(rows)
        except (pa.ArrowException, OverflowError, UnicodeError, ValueError):
            self._part(decoded, rows)
        return decoded

    def _row(self, value: bytes | None, new: dict[str, Any]) -> list[Any]:
        if value is None:
            return [None] * len(self._converters)
        fields = parse_object(value)
        if self._new_fields is not NewFields.IGNORE and not self._names.issuperset(fields):
            self._take_new(fields.keys() - self._names, fields, new)
        row = []
        for name, python_type, convert in self._converters:
            found = fields.get(name)
            if found is None or type(found) is python_type:
                row.append(found)
                continue
            try:
                row.append(convert(found))
            except (ValueError, OverflowError, InvalidOperation) as error:
                raise BadRecord(f"field {name}: {error}") from None
        return row

    def _take_new(self, unknown: set[str], fields: Mapping[str, Any], new: dict[str, Any]) -> None:
        if self._new_fields is NewFields.REFUSE:
            raise BadRecord(f"field {min(unknown)} has no column")
        for name in unknown:
            why = why_no_column(name, self._columns)
            if why is not None:
                raise BadRecord(f"field {name}: {why}")
        for name in unknown:
            found = merge(new.get(name), infer(fields[name]))
            if found is not None:
                new[name] = found

    def _arrays(self, rows: list[list[Any]]) -> list[Any]:
        return [pa.array([row[number] for row in rows], one.type) for number, one in enumerate(self._columns)]

    def _part(self, decoded: DecodedRows, rows: list[list[Any]]) -> None:
        """Some value has the right kind and does not fit all the same: each row is tried alone."""
        kept, good = [], []
        for index, row in zip(decoded.good, rows, strict=True):
            try:
                self._arrays([row])
            except (pa.ArrowException, OverflowError, UnicodeError, ValueError) as error:
                decoded.bad.append((index, _first_line(error)))
            else:
                kept.append(row)
                good.append(index)
        decoded.good, decoded.arrays = good, self._arrays(kept)
        decoded.bad.sort()


def parse_object(value: bytes) -> dict[str, Any]:
    """Raises BadRecord for what is no JSON object."""
    if value[:1] == b"\0" and len(value) > _REGISTRY_FRAME_BYTES:
        value = value[_REGISTRY_FRAME_BYTES:]
    try:
        found = _JSON.decode(value.decode())
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"no JSON: {_first_line(error)}") from None
    if not isinstance(found, dict):
        raise BadRecord(f"no JSON object but {_shown(found)}")
    return found


def _no_constant(name: str) -> Any:
    raise BadRecord(f"{name} is no JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"


def _converter(type_: Any) -> Callable[[Any], Any]:
    """Makes of a JSON value, never null, what pyarrow takes for the type. Raises ValueError."""
    if pa.types.is_list(type_):
        return _list_converter(type_)
    if pa.types.is_struct(type_):
        return _struct_converter(type_)
    convert = _SIMPLE.get(type_) or (_decimal if pa.types.is_decimal(type_) else None)
    if convert is None:
        raise TypeError(f"no column can be of type {type_}")
    name = type_text(type_)

    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, InvalidOperation):
            raise ValueError(f"{_shown(value)} is no {name}") from None

    return checked


def _list_converter(type_: Any) -> Callable[[Any], Any]:
    of_element = _converter(type_.value_type)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError(f"{_shown(value)} is no array")
        return [None if one is None else of_element(one) for one in value]

    return convert


def _struct_converter(type_: Any) -> Callable[[Any], Any]:
    of_field = {one.name: _converter(one.type) for one in (type_.field(n) for n in range(type_.num_fields))}

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"{_shown(value)} is no object")
        return {name: None if (one := value.get(name)) is None else of(one) for name, of in of_field.items()}

    return convert


def _text(value: Any) -> str:
    """Anything has a text: what is not a string is kept as JSON, as Spark does."""
    return value if type(value) is str else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
    if type(value) not in (int, float, str):
        raise ValueError
    return Decimal(str(value))


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise ValueError
    return base64.b64decode(value, validate=True)


def _date(value: Any) -> date:
    if type(value) is not str:
        raise ValueError
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    """Where no zone is named, UTC is meant."""
    if type(value) is not str:
        raise ValueError
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# What JSON gives is what the column takes; whether it is in range shows with the whole column.
_AS_THEY_ARE: Final[Mapping[Any, type]] = {
    pa.bool_(): bool,
    pa.int32(): int,
    pa.int64(): int,
    pa.float64(): float,
    pa.string(): str,
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
