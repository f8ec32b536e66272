"""Schemas as text, found from values, and joined."""

import pyarrow as pa
import pytest

from odradek.pipelines.jobs.columns import (
    SchemaProblem,
    add_columns,
    columns_text,
    fillable_columns,
    infer,
    merge,
    parse_columns,
)

pytestmark = pytest.mark.needs("pyarrow")


@pytest.mark.parametrize(
    "text",
    [
        "id bigint, name string, paid boolean",
        "at timestamp, day date, price decimal(10,2), raw binary, n int, f float, d double",
        "tags array<string>, place struct<lat: double, path: array<struct<x: bigint>>>",
        "`first-name` string",
    ],
)
def test_schema_text_round_trip(text: str) -> None:
    assert columns_text(parse_columns(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a name"),
        ("id", "expected a name"),
        ("id bigint,", "expected a name"),
        ("id number", "unknown type 'number'"),
        ("id array<bigint", "expected '>'"),
        ("id decimal(40,2)", "decimal.40,2. is invalid"),
        ("id bigint; drop", "';"),
        ("id bigint, ID string", "only in case"),
        ("_offset bigint", "reserved for the job"),
        ("`a b` string", "is not a valid column name"),
    ],
)
def test_invalid_schema_text(text: str, said: str) -> None:
    with pytest.raises(SchemaProblem, match=said):
        parse_columns(text)


def test_types_are_found_from_values() -> None:
    found = {
        "n": infer(1),
        "f": infer(1.5),
        "b": infer(True),
        "s": infer("x"),
        "big": infer(2**70),
        "o": infer({"a": 1}),
        "l": infer([1, None, 2.5]),
        "mixed": infer([1, "x"]),
        "nested": infer([[1]]),
    }
    assert columns_text(pa.schema(list(found.items()))) == (
        "n bigint, f double, b boolean, s string, big string, o string, l array<double>, mixed array<string>, "
        "nested string"
    )
    assert infer(None) is None and infer([]) is None and infer([None]) is None


def test_types_that_differ_join_in_the_narrowest_that_holds_both() -> None:
    assert merge(pa.int64(), pa.float64()) == pa.float64()
    assert merge(pa.int64(), pa.bool_()) == pa.string()
    assert merge(pa.list_(pa.int64()), pa.list_(pa.string())) == pa.list_(pa.string())
    assert merge(None, pa.bool_()) == pa.bool_() and merge(pa.bool_(), None) == pa.bool_()


def test_columns_are_added_in_a_stable_order_and_only_those_a_table_can_have() -> None:
    new = {"z": pa.int64(), "A": pa.string(), "a b": pa.string(), "ID": pa.int64(), "_key": pa.string()}
    assert columns_text(add_columns(parse_columns("id bigint"), new)) == "id bigint, A string, z bigint"


def test_fillable_columns_of_a_table() -> None:
    tags = pa.list_(pa.field("element", pa.string()))
    table = pa.schema(
        [("_offset", pa.int64()), ("id", pa.int64()), ("tags", tags), ("m", pa.map_(pa.string(), pa.int8()))]
    )
    assert columns_text(fillable_columns(table)) == "id bigint, tags array<string>"
    assert len(fillable_columns(None)) == 0
