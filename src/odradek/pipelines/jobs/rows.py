"""Decodes records to rows. Records that do not fit are reported with the reason. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import InvalidOperation
from enum import StrEnum
from typing import Any, Final, NamedTuple

import pyarrow as pa

from odradek.pipelines.jobs.columns import column_problem, infer, merge
from odradek.pipelines.jobs.conversion import AS_THEY_ARE, converter, shorten_json

# Registry clients put a zero byte and a schema ID before the value. JSON never starts with a zero byte.
_REGISTRY_FRAME_BYTES: Final = 5


class NewFields(StrEnum):
    """How to handle fields without a column."""

    ADD = "add"
    IGNORE = "ignore"
    REFUSE = "refuse"


class BadRecord(ValueError):
    """The record does not fit. The message states why."""


class SchemaRequired(Exception):
    """The record cannot be decoded until its schema is available."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(schema_id)
        self.schema_id: Final = schema_id


class Fields(NamedTuple):
    """The fields of a record. Without types from a schema, types are inferred from the values."""

    values: Mapping[str, Any]
    types: Mapping[str, Any] | None = None


ReadFields = Callable[[bytes], Fields]
"""Raises BadRecord or SchemaRequired."""


@dataclass(slots=True)
class DecodedRows:
    good: list[int] = field(default_factory=list)
    """Indexes of the values that became rows, in order."""
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Indexes of the others, with reasons."""
    arrays: list[Any] = field(default_factory=list)
    """One array per column, of the good values."""
    new: dict[str, Any] = field(default_factory=dict)
    """Types of fields without a column."""
    wanted: set[int] = field(default_factory=set)
    """Missing schemas that some values need."""


class RowDecoder:
    def __init__(self, columns: Any, new_fields: NewFields, read: ReadFields | None = None) -> None:
        """The default reader is for JSON."""
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
        """Convert each row separately, to find those with values out of range."""
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
    """Decode JSON, with or without a registry's framing."""
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
