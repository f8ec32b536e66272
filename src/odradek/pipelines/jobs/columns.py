"""The columns of a table: parsed from text, inferred from values, and merged. Pure.

The text is Spark's DDL: `id bigint, tags array<string>, place struct<lat: double, lon: double>`.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

# The origin of a row, for tracing and audits.
ORIGIN: Final = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", "UTC")),
        ("_key", pa.binary()),
    ]
)
# Protects against objects whose field names are data.
COLUMNS_MAX: Final = 1000

_SIMPLE: Final[Mapping[str, Any]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": ORIGIN.field("_timestamp").type,
}
_NAMES: Final[Mapping[Any, str]] = {type_: name for name, type_ in reversed(list(_SIMPLE.items()))}
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`|[^\W\d]\w*|\d+)|([<>(),:]))")
# Characters that Parquet and Delta do not accept in column names by default.
_BAD_IN_NAMES: Final = re.compile(r"[ ,;{}()\n\t=\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class SchemaProblem(ValueError):
    """Invalid schema text, or incompatible columns."""


def column_problem(name: str, columns: Any) -> str | None:
    """Return why a field cannot be added to these columns, or None if it can."""
    if not name or _BAD_IN_NAMES.search(name):
        return f"{name!r} is not a valid column name"
    if name.lower() in ORIGIN.names:
        return f"column name {name!r} is reserved for the job"
    for other in columns.names:
        if other.lower() == name.lower():
            return f"{name!r} and {other!r} differ only in case, and column names are case-insensitive"
    if len(columns) >= COLUMNS_MAX:
        return f"the table already has the maximum of {COLUMNS_MAX} columns. Select columns with a schema"
    return None


def parse_columns(text: str) -> Any:
    """Parse Spark's DDL to a pyarrow schema. Raises SchemaProblem."""
    reader = _Reader(text)
    fields = reader.fields(end=None, separator="")
    columns = pa.schema([])
    for field in fields:
        why = column_problem(field.name, columns)
        if why is not None:
            raise SchemaProblem(f"Invalid schema {text!r}: {why}.")
        columns = columns.append(field)
    return columns


def columns_text(columns: Any) -> str:
    return ", ".join(f"{_quote(field.name)} {type_text(field.type)}" for field in columns)


def type_text(type_: Any) -> str:
    if pa.types.is_list(type_):
        return f"array<{type_text(type_.value_type)}>"
    if pa.types.is_struct(type_):
        fields = (type_.field(number) for number in range(type_.num_fields))
        return f"struct<{', '.join(f'{_quote(field.name)}: {type_text(field.type)}' for field in fields)}>"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    name = _NAMES.get(type_)
    if name is None:
        raise SchemaProblem(f"Column type {type_} is not supported.")
    return name


def infer(value: object) -> Any | None:
    """Return the column type for a JSON value, or None if it is unknown (null).

    Objects, mixed arrays and nested arrays stay JSON text, so that their structure may vary between records.
    """
    match value:
        case None:
            return None
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(2**63) <= value < 2**63 else pa.string()
        case float():
            return pa.float64()
        case str() | dict():
            return pa.string()
        case list():
            if any(isinstance(one, list | dict) for one in value):
                return pa.string()
            found: Any = None
            for one in value:
                found = merge(found, infer(one))
            return None if found is None else pa.list_(found)
    raise SchemaProblem(f"{value!r} is not a JSON value.")


def merge(left: Any | None, right: Any | None) -> Any | None:
    """Return the narrowest type for values of both types. The fallback is text."""
    if left is None or right is None or left == right:
        return left if right is None else right
    if {left, right} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(merge(left.value_type, right.value_type))
    return pa.string()


def add_columns(columns: Any, new: Mapping[str, Any]) -> Any:
    """Add the valid new columns, sorted by name. Records with other new fields are rejected individually."""
    for name in sorted(new):
        if column_problem(name, columns) is None:
            columns = columns.append(pa.field(name, new[name]))
    return columns


def fillable_columns(table: Any | None) -> Any:
    """Return the table columns that records can fill. Others stay null."""
    found = pa.schema([])
    for field in table or ():
        if field.name not in ORIGIN.names:
            with suppress(SchemaProblem):
                found = found.append(parse_columns(f"found {type_text(field.type)}").field(0).with_name(field.name))
    return found


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d]\w*", name) else "`" + name.replace("`", "``") + "`"


class _Reader:
    """Recursive-descent parser of schema text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._problem(f"{text[position:].strip()[:20]!r} is unexpected")
            self._tokens.append(found[1] or found[2])
            position = found.end()
        self._next = 0

    def fields(self, *, end: str | None, separator: str) -> list[Any]:
        found = []
        while True:
            name = self._name()
            if separator:
                self._expect(separator)
            found.append(pa.field(name, self._type()))
            if self._peek() != ",":
                break
            self._next += 1
        if self._peek() != end:
            raise self._problem(f"{self._peek()!r} is unexpected" if self._peek() else "it is incomplete")
        return found

    def _type(self) -> Any:
        name = self._name().lower()
        simple = _SIMPLE.get(name)
        if simple is not None:
            return simple
        composed: Mapping[str, Callable[[], Any]] = {
            "array": lambda: self._between("<", ">", lambda: pa.list_(self._type())),
            "struct": lambda: self._between("<", ">", lambda: pa.struct(self.fields(end=">", separator=":"))),
            "decimal": lambda: self._between("(", ")", self._decimal),
        }
        if name not in composed:
            known = ", ".join(sorted([*_SIMPLE, "array<…>", "struct<…>", "decimal(p,s)"]))
            raise self._problem(f"unknown type {name!r}, the types are {known}")
        return composed[name]()

    def _between(self, start: str, end: str, inside: Callable[[], Any]) -> Any:
        self._expect(start)
        found = inside()
        self._expect(end)
        return found

    def _decimal(self) -> Any:
        precision = self._name()
        self._expect(",")
        scale = self._name()
        if not (precision.isdigit() and scale.isdigit() and 0 <= int(scale) <= int(precision) <= 38):
            raise self._problem(f"decimal({precision},{scale}) is invalid")
        return pa.decimal128(int(precision), int(scale))

    def _name(self) -> str:
        token = self._peek()
        if token is None or token in "<>(),:":
            raise self._problem("expected a name" if token is None else f"expected a name before {token!r}")
        self._next += 1
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise self._problem(f"expected {token!r}")
        self._next += 1

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _problem(self, what: str) -> SchemaProblem:
        return SchemaProblem(f"Invalid schema {self._text!r}: {what}. Write it like `id bigint, name string`.")
