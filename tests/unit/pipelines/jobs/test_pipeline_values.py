"""Pipeline sources that are not JSON: the schema is in a file, or tasks request it from a registry."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odradek.pipelines.jobs.pipeline.decoding import decode_task
from odradek.pipelines.jobs.pipeline.definition import parse_pipeline
from odradek.pipelines.jobs.pipeline.source_values import SchemaMissing, SourceValues
from odradek.text.errors import UserError
from tests.schema_registry import fake_registry

pytestmark = pytest.mark.needs("pyarrow")

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def source(directory: Path, **keys: Any) -> SourceValues:
    form = {
        "name": "p",
        "sources": {"orders": {"topic": "orders", "schema": "id bigint", **keys}},
        "sinks": {"out": {"from": "orders", "topic": "out"}},
    }
    return parse_pipeline(form, directory=directory).sources[0].values


def decoded(values: SourceValues, *records: bytes | None) -> list[tuple[int | None, str | None]]:
    count = len(records)
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array(records, pa.binary()),
            "topic": ["orders"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "headers": pa.array([None] * count, HEADERS),
        }
    )
    # As they travel.
    task = decode_task("id bigint", pickle.loads(pickle.dumps(values)), keep_bad=True)  # noqa: S301
    rows = [row for made in task(iter([batch])) for row in made.to_pylist()]
    return [(row["id"], row["_error"]) for row in sorted(rows, key=lambda row: row["_offset"])]


def test_records_by_a_schema_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    values = source(tmp_path, values="avro", schema_file="order.avsc")
    (first, second, third) = decoded(values, b"\x02", None, b"")
    assert (first, second) == ((1, None), (None, None))
    assert third[0] is None and third[1]


def test_tasks_decode_with_a_schema_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    with fake_registry() as registry:
        registry.responses = {"/schemas/ids/1": {"schema": json.dumps(ORDER)}}
        monkeypatch.setenv("ODRADEK_SCHEMA_REGISTRY", f"http://me:ungeziefer@{registry.address}")
        values = source(tmp_path, values="registry", schema_file=["7=order.avsc"])
        assert "ungeziefer" not in repr(values)
        rows = decoded(values, b"\0\0\0\0\1\x02", b"\0\0\0\0\1\x04", b"\0\0\0\0\7\x06", b"{}")
        assert rows[:3] == [(1, None), (2, None), (3, None)]
        assert rows[3] == (None, "does not start with a schema ID")
        assert len(registry.requests) == 1, "once for each schema"
        # Not a dead letter: a schema that is registered late loses no records.
        with pytest.raises(SchemaMissing, match="schema 2 of a record: not found in the schema registry"):
            decoded(values, b"\0\0\0\0\2\x02")
        registry.trouble = 500
        with pytest.raises(SchemaMissing, match=r"schema 1 of a record: schema registry request failed: .*500"):
            decoded(values, b"\0\0\0\0\1\x02")
    monkeypatch.delenv("ODRADEK_SCHEMA_REGISTRY")
    with pytest.raises(SchemaMissing, match="Add it with schema_file"):
        decoded(source(tmp_path, values="registry", schema_file=["7=order.avsc"]), b"\0\0\0\0\1\x02")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"values": "xml"}, "sources.orders: values: 'xml' is invalid, use one of json, avro, protobuf, registry"),
        ({"values": "avro"}, "sources.orders: values avro requires one schema_file FILE"),
        ({"values": "avro", "schema_file": 1}, "sources.orders.schema_file: is neither a file name"),
        ({"values": "avro", "schema_file": "no.avsc"}, "no.avsc': No such file"),
        ({"values": "registry"}, "values registry requires schema_registry URL or schema_file ID=FILE"),
        ({"values": "registry", "schema_registry": "nowhere"}, "sources.orders: schema_registry: "),
        ({"schema_registry": "http://x"}, "schema_registry requires values: registry"),
        ({"schema_file": "a.avsc"}, "schema_file requires values avro, protobuf or registry"),
        ({"message": "a"}, "message requires values protobuf"),
    ],
)
def test_invalid_input_is_reported(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        source(tmp_path, **keys)
    assert said in str(refused.value)


def test_formats_other_than_json_require_a_schema(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"sources\.orders\.schema: is missing"):
        source(tmp_path, schema=None, values="registry", schema_registry="http://x")
