"""Records of Avro and Protobuf, framed and plain, as rows."""

import io
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format

from odradek.pipelines.jobs.columns import columns_text, parse_columns
from odradek.pipelines.jobs.rows import DecodedRows, NewFields, RowDecoder
from odradek.pipelines.jobs.schema_files import read_schema_file
from odradek.pipelines.jobs.stored_schemas import StoredSchemas
from odradek.pipelines.jobs.values import ValueKind, Values, fields_reader
from odradek.pipelines.schemas.protobuf import ProtobufReader
from odradek.pipelines.schemas.schema import Schema

pytestmark = pytest.mark.needs("fastavro")

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "own", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "weights", "type": {"type": "map", "values": "double"}},
        {"name": "line", "type": {"type": "record", "name": "Line", "fields": [{"name": "raw", "type": "Two"}]}},
        {"name": "lines", "type": {"type": "array", "items": "Line"}},
        {"name": "mixed", "type": ["null", "long", "double"]},
        {"name": "nothing", "type": "null"},
    ],
}
ONE = {
    "id": 1,
    "price": Decimal("12.30"),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "clock": time(12, 30),
    "own": UUID(int=7),
    "raw": b"\x00\xff",
    "state": "PAID",
    "tags": ["a", "b"],
    "weights": {"x": 1.5, "y": math.nan},
    "line": {"raw": b"\x00\x01"},
    "lines": [{"raw": b"\x00\x01"}],
    "mixed": 2.5,
    "nothing": None,
}


def avro(schema: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()


def avro_schema(schema: Any) -> Schema:
    return Schema(type="AVRO", text=json.dumps(schema))


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def rows(decoded: DecodedRows) -> list[Any]:
    return list(zip(*(array.to_pylist() for array in decoded.arrays), strict=True))


def test_avros_fields_have_columns_by_their_schema() -> None:
    payload = avro(ORDER, ONE)
    fields = fields_reader(avro_schema(ORDER))(payload)
    assert fields.types is not None
    columns = columns_text(pa.schema([(name, found) for name, found in fields.types.items() if found is not None]))
    assert columns == (
        "id bigint, price decimal(8,2), at timestamp, day date, clock string, own string, raw binary, state string, "
        "tags array<string>, weights string, line string, lines string, mixed double"
    )
    decoded = RowDecoder(parse_columns(columns), NewFields.ADD, fields_reader(avro_schema(ORDER))).decode([payload])
    assert rows(decoded) == [
        (
            1,
            Decimal("12.30"),
            datetime(2026, 1, 31, 12, tzinfo=UTC),
            date(2026, 1, 31),
            "12:30:00",
            str(UUID(int=7)),
            b"\x00\xff",
            "PAID",
            ["a", "b"],
            '{"x":1.5,"y":"NaN"}',
            '{"raw":"AAE="}',
            '[{"raw":"AAE="}]',
            2.5,
        )
    ]
    assert not decoded.new


def test_schemas_without_fields_and_values_out_of_range_are_rejected() -> None:
    with pytest.raises(Exception, match="not a record"):
        fields_reader(avro_schema("string"))
    decoded = RowDecoder(parse_columns("id int"), NewFields.IGNORE, fields_reader(avro_schema(LONG))).decode(
        [avro(LONG, {"id": 2**40}), avro(LONG, {"id": 5}), None]
    )
    assert rows(decoded) == [(5,), (None,)] and decoded.bad[0][0] == 0


LONG = {"type": "record", "name": "L", "fields": [{"name": "id", "type": "long"}]}


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """What protoc makes of a file that imports another and google/protobuf/timestamp.proto."""
    found = descriptor_pb2.FileDescriptorSet()
    # As protoc of another version writes it.
    found.file.add(name="google/protobuf/timestamp.proto", package="google.protobuf")
    other = found.file.add(name="shop/line.proto", package="shop", syntax="proto3")
    other.message_type.add(name="Line").field.add(name="n", number=1, type=5, label=1)
    own = found.file.add(name="shop/order.proto", package="shop", syntax="proto3")
    own.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", "shop/line.proto"])
    own.enum_type.add(name="State").value.add(name="NEW", number=0)
    order = own.message_type.add(name="Order")
    for number, (name, kind, label, type_name) in enumerate(
        [
            ("id", 3, 1, None),
            ("big", 4, 1, None),
            ("name", 9, 1, None),
            ("raw", 12, 1, None),
            ("state", 14, 1, ".shop.State"),
            ("at", 11, 1, ".google.protobuf.Timestamp"),
            ("line", 11, 1, ".shop.Line"),
            ("lines", 11, 3, ".shop.Line"),
            ("tags", 9, 3, None),
            ("times", 11, 3, ".google.protobuf.Timestamp"),
            ("count", 11, 1, ".google.protobuf.Int64Value"),
        ],
        1,
    ):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)  # type: ignore[arg-type]
    order.nested_type.add(name="Inner").field.add(name="x", number=1, type=1, label=1)
    return found


@pytest.fixture
def order_file(tmp_path: Path) -> Path:
    file = tmp_path / "order.desc"
    file.write_bytes(descriptors().SerializeToString())
    return file


def order_payload(file: Path, form: dict[str, Any]) -> bytes:
    message = ProtobufReader(read_schema_file(file, message=None, is_framed=False)).read(b"")
    payload: bytes = json_format.ParseDict(form, message).SerializeToString()
    return payload


PROTOBUF_COLUMNS = (
    "id bigint, big decimal(20,0), name string, raw binary, state string, at timestamp, line string, lines string, "
    "tags array<string>, times array<timestamp>, count bigint"
)


def test_protobufs_fields_have_columns_by_their_schema(order_file: Path) -> None:
    schema = read_schema_file(order_file, message=None, is_framed=False)
    at = "2026-01-31T12:00:00Z"
    payload = order_payload(
        order_file,
        {
            "id": "5",
            "big": str(2**64 - 1),
            "name": "ann",
            "raw": "AAE=",
            "state": 9,
            "at": at,
            "line": {"n": 3},
            "lines": [{"n": 1}, {}],
            "tags": ["a"],
            "times": [at],
            "count": "0",
        },
    )
    decoder = RowDecoder(parse_columns(PROTOBUF_COLUMNS), NewFields.REFUSE, fields_reader(schema))
    decoded = decoder.decode([payload, b""])
    assert not decoded.bad
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert rows(decoded) == [
        (5, Decimal(2**64 - 1), "ann", b"\0\1", "9", noon, '{"n":3}', '[{"n":1},{}]', ["a"], [noon], 0),
        # What cannot be left out has its default.
        (0, Decimal(0), "", b"", "NEW", None, None, "[]", [], [], None),
    ]
    found = RowDecoder(pa.schema([]), NewFields.ADD, fields_reader(schema)).decode([b""]).new
    assert sorted(columns_text(pa.schema(list(found.items()))).split(", ")) == sorted(PROTOBUF_COLUMNS.split(", "))


def test_framed_records_are_read_by_the_schemas_they_name(tmp_path: Path, order_file: Path) -> None:
    kept = StoredSchemas(tmp_path / "schemas")
    kept.keep(7, avro_schema(LONG))
    kept.keep(8, read_schema_file(order_file, message=None, is_framed=True))
    kept.keep(9, Schema(type="JSON", text="{}"))
    kept.keep(10, avro_schema({"type": "array", "items": "null"}))
    kept.keep(11, Schema(type="XML", text=""))
    values = Values(kind=ValueKind.REGISTRY, schemas=str(kept.directory), unknown={12: "there is none"})
    inner = framed(8, b"\x04\x00\x00" + b"\x09" + b"\x00" * 6 + b"\xf0\x3f")
    decoded = RowDecoder(parse_columns("id bigint, x double"), NewFields.IGNORE, values.reader()).decode(
        [
            framed(7, avro(LONG, {"id": 1})),
            framed(8, b"\x00" + order_payload(order_file, {"id": "2"})),
            framed(9, b'{"id": 3}'),
            inner,
            framed(7, b"\xff"),
            framed(10, b""),
            framed(11, b""),
            framed(12, b""),
            framed(2**31, b""),
            b'{"id": 1}',
            b"\x00\x00",
            framed(13, b""),
            framed(8, b"\x00\x08"),
            framed(8, b"\x02\x0a"),
            None,
        ]
    )
    assert rows(decoded) == [(1, None), (2, None), (3, None), (None, 1.0), (None, None)]
    assert decoded.wanted == {13}
    assert {index: reason[:42] for index, reason in decoded.bad} == {
        4: "schema 7: does not match its Avro schema: ",
        5: "schema 10: its Avro schema has an array wh",
        6: "schema 11: schema type XML is not supporte",
        7: "schema 12: there is none",
        8: "2147483648 is not a schema ID",
        9: "does not start with a schema ID",
        10: "does not start with a schema ID",
        12: "schema 8: does not match its Protobuf sche",
        13: "schema 8: its Protobuf schema has no messa",
    }


def test_nesting_that_json_cannot_write_is_bad() -> None:
    chain = {"type": "record", "name": "C", "fields": [{"name": "next", "type": ["null", "C"]}]}
    decoder = RowDecoder(parse_columns("next string"), NewFields.IGNORE, fields_reader(avro_schema(chain)))
    decoded = decoder.decode([b"\x02" * 998 + b"\x00", b"\x02\x00"])
    assert rows(decoded) == [('{"next":null}',)]
    assert decoded.bad == [(0, "field next: nested too deeply")]
