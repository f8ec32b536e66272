"""Records of JSON, good and bad, as rows."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from odradek.pipelines.jobs.columns import columns_text, parse_columns
from odradek.pipelines.jobs.rows import DecodedRows, NewFields, RowDecoder

pytestmark = pytest.mark.needs("pyarrow")


def decode(schema: str, *values: object, new_fields: NewFields = NewFields.ADD) -> DecodedRows:
    raw = [one if isinstance(one, bytes | None) else json.dumps(one).encode() for one in values]
    return RowDecoder(parse_columns(schema), new_fields).decode(raw)


def rows(decoded: DecodedRows) -> list[Any]:
    return list(zip(*(array.to_pylist() for array in decoded.arrays), strict=True))


def test_valid_records_become_rows() -> None:
    decoded = decode(
        "id bigint, name string, tags array<double>",
        {"id": 1, "name": "a", "tags": [1, None, 2.5]},
        {"id": 2.0, "name": {"first": "b"}},
        None,
        {"name": 7},
    )
    assert rows(decoded) == [
        (1, "a", [1.0, None, 2.5]),
        (2, '{"first":"b"}', None),
        (None, None, None),
        (None, "7", None),
    ]
    assert decoded.good == [0, 1, 2, 3] and not decoded.bad and not decoded.new


def test_declared_types_take_their_text() -> None:
    decoded = decode(
        "at timestamp, day date, price decimal(6,2), raw binary, place struct<lat: double, lon: double>",
        {"at": "2026-01-31T12:00:00+02:00", "day": "2026-01-31", "price": 12.34, "raw": "AAE=", "place": {"lat": 1}},
    )
    assert rows(decoded) == [
        (
            datetime(2026, 1, 31, 10, tzinfo=UTC),
            date(2026, 1, 31),
            Decimal("12.34"),
            b"\0\1",
            {"lat": 1.0, "lon": None},
        )
    ]


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ("id bigint", b"{", "invalid JSON"),
        ("id bigint", b"", "invalid JSON"),
        ("id bigint", b"\xff\xfe\xfd", "invalid JSON"),
        ("id bigint", b"[1]", "not a JSON object"),
        ("id bigint", b'{"id": NaN}', "NaN is not valid JSON"),
        ("id bigint", b"[" * 100_000, "invalid JSON"),
        ("id bigint", {"id": "x"}, 'field id: "x" is not a bigint'),
        ("id bigint", {"id": 1.5}, "field id: 1.5 is not a bigint"),
        ("id bigint", {"id": True}, "field id: true is not a bigint"),
        ("id bigint", {"id": 2**63}, ""),
        ("id int", {"id": 2**31}, ""),
        ("name string", b'{"name": "\\ud800"}', ""),
        ("d double", {"d": 10**400}, "field d"),
        ("at timestamp", {"at": "yesterday"}, "is not a timestamp"),
        ("price decimal(4,2)", {"price": 12345}, ""),
        ("tags array<string>", {"tags": "x"}, "is not an array"),
        ("id bigint", {"id": 1, "a b": 2}, "is not a valid column name"),
        ("id bigint", {"id": 1, "ID": 2}, "only in case"),
        ("id bigint", {"id": 1, "_offset": 2}, "reserved for the job"),
    ],
)
def test_bad_records_are_reported_and_others_kept(schema: str, value: object, said: str) -> None:
    column = parse_columns(schema).names[0]
    decoded = decode(schema, {column: None}, value, {})
    assert decoded.good == [0, 2]
    assert [index for index, _ in decoded.bad] == [1]
    assert said in decoded.bad[0][1] and decoded.bad[0][1]
    assert rows(decoded) == [(None,), (None,)]


def test_the_registry_framing_of_json_is_removed() -> None:
    assert rows(decode("id bigint", b"\0\0\0\0\7" + b'{"id": 3}')) == [(3,)]


def test_new_fields_are_added_ignored_or_rejected() -> None:
    values = ({"id": 1, "n": 1}, {"id": 2, "n": 1.5, "gone": None})
    decoded = decode("id bigint", *values)
    assert {name: str(found) for name, found in decoded.new.items()} == {"n": "double"}
    assert rows(decoded) == [(1,), (2,)]

    assert decode("id bigint", *values, new_fields=NewFields.IGNORE).new == {}
    refused = decode("id bigint", *values, new_fields=NewFields.REFUSE)
    assert refused.bad == [(0, "field n has no column"), (1, "field gone has no column")]
    assert columns_text(parse_columns("id bigint")) == "id bigint"
