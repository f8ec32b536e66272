"""Records to the rows of columns: what fits becomes a row, what does not is named with its reason. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import InvalidOperation
from enum import StrEnum
from typing import Any, Final, NamedTuple

import pyarrow as pa

from odradek.pipelines.jobs.columns import column_problem, infer, merge
from odradek.pipelines.jobs.conversion import AS_THEY_ARE, converter, shorten_json

# Schema registries' clients put a zero and the number of a schema before the value. No JSON begins with a zero byte.
_REGISTRY_FRAME_BYTES: Final = 5


class NewFields(StrEnum):
    """What becomes of a field that has no column."""

    ADD = "add"
    IGNORE = "ignore"
    REFUSE = "refuse"


class BadRecord(ValueError):
    """Why a record is no row."""


class SchemaRequired(Exception):
    """Whether a record is a row cannot be said before its schema is here."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(schema_id)
        self.schema_id: Final = schema_id


class Fields(NamedTuple):
    """What a record holds. Without types, which a schema gives, they are told from the values."""

    values: Mapping[str, Any]
    types: Mapping[str, Any] | None = None


ReadFields = Callable[[bytes], Fields]
"""Raises BadRecord, and SchemaRequired."""


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
    wanted: set[int] = field(default_factory=set)
    """Schemas without which some are neither good nor bad."""


class RowDecoder:
    def __init__(self, columns: Any, new_fields: NewFields, read: ReadFields | None = None) -> None:
        """Records are JSON, unless something else reads them."""
        self._columns: Final = columns
        self._new_fields: Final = new_fields
        self._read: Final = read or read_json
        self._names: Final = frozenset(columns.names)
        self._converters: Final = [(one.name, AS_THEY_ARE.get(one.type), converter(one.type)) for one in columns]

    def decode(self, values: Sequence[bytes | None]) -> DecodedRows:
        decoded = DecodedRows()
        rows: list[list[Any]] = []
        for index, value in enumerate(values):
            try:
                rows.append(self._row(value, decoded.new))
            except BadRecord as error:
                decoded.bad.append((index, str(error)))
            except SchemaRequired as error:
                decoded.wanted.add(error.schema_id)
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
        fields, types = self._read(value)
        if self._new_fields is not NewFields.IGNORE and not self._names.issuperset(fields):
            self._take_new(fields.keys() - self._names, fields, types, new)
        row = []
        for name, python_type, convert in self._converters:
            found = fields.get(name)
            if found is None or type(found) is python_type:
                row.append(found)
                continue
            try:
                row.append(convert(found))
            except RecursionError:
                raise BadRecord(f"field {name}: nested too deeply") from None
            except (ValueError, OverflowError, InvalidOperation) as error:
                raise BadRecord(f"field {name}: {error}") from None
        return row

    def _take_new(
        self, unknown: set[str], fields: Mapping[str, Any], types: Mapping[str, Any] | None, new: dict[str, Any]
    ) -> None:
        if self._new_fields is NewFields.REFUSE:
            raise BadRecord(f"field {min(unknown)} has no column")
        for name in unknown:
            why = column_problem(name, self._columns)
            if why is not None:
                raise BadRecord(f"field {name}: {why}")
        for name in unknown:
            found = merge(new.get(name), infer(fields[name]) if types is None else types[name])
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


def read_json(value: bytes) -> Fields:
    """Of a record with a registry's frame too."""
    if value[:1] == b"\0" and len(value) > _REGISTRY_FRAME_BYTES:
        value = value[_REGISTRY_FRAME_BYTES:]
    try:
        found = _JSON.decode(value.decode())
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"invalid JSON: {_first_line(error)}") from None
    if not isinstance(found, dict):
        raise BadRecord(f"not a JSON object: {shorten_json(found)}")
    return Fields(found)


def _no_constant(name: str) -> Any:
    raise BadRecord(f"{name} is not valid JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
