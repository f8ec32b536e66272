"""Schemas of Avro that would make a reader recurse without end, or make much of little: they are refused."""

import json
from typing import Any

import pytest

from odradek.pipelines.schemas.avro import AvroReader
from odradek.pipelines.schemas.schema import Reference, Schema, Undecodable

pytestmark = pytest.mark.needs("fastavro")


def reader(schema: Any, *references: Any) -> AvroReader:
    named = tuple(Reference(name=one["name"], text=json.dumps(one)) for one in references)
    return AvroReader(Schema(type="AVRO", text=json.dumps(schema), references=named))


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": one} for number, one in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def doubling(levels: int, last: Any) -> list[Any]:
    """Each record holds the one before it twice."""
    return [record("R0", last), *(record(f"R{n}", f"R{n - 1}", f"R{n - 1}") for n in range(1, levels))]


@pytest.mark.parametrize("last", ["null", record("E")])
def test_exponential_avro_schemas_are_rejected(last: Any) -> None:
    *inner, outer = doubling(60, last)
    with pytest.raises(Undecodable, match="more than 1,000 values that take no bytes"):
        reader(outer, *inner)
    *inner, outer = doubling(6, last)
    with pytest.raises(Undecodable, match="take almost no bytes"):
        reader({"type": "array", "items": record("Item", ["null", "R5"], "R5", "null")}, *inner, outer)


def test_where_each_value_wants_a_byte_the_payload_ends_first() -> None:
    *inner, outer = doubling(60, "int")
    with pytest.raises(Undecodable, match="EOFError"):
        reader(outer, *inner).read(b"\x00" * 100)


def test_endless_schemas_are_rejected() -> None:
    for schema in (record("A", "A"), record("A", "int", record("B", "A")), record("A", ["null", record("B", "B")])):
        with pytest.raises(Undecodable, match="is endless"):
            reader(schema)
    # Through a union on one way, and directly on the other.
    with pytest.raises(Undecodable, match="is endless"):
        reader(record("X", ["null", record("Y", "X")], "Y"))


def test_valid_schemas_are_accepted() -> None:
    wide = record("Line", *[["null", "string"]] * 200)
    orders = record("Order", {"type": "array", "items": ["null", wide]}, {"type": "map", "values": "null"}, "null")
    empty_line = b"\x02" + b"\x00" * 200
    found = reader(orders).read(b"\x04" + empty_line + b"\x00" + b"\x00" + b"\x02\x02a\x00")
    assert len(found["f0"]) == 2 and found["f0"][0]["f7"] is None and found["f1"] == {"a": None}
    tree = record("Tree", "int", {"type": "array", "items": "Tree"})
    assert reader(tree).read(b"\x02\x02\x04\x00\x00") == {"f0": 1, "f1": [{"f0": 2, "f1": []}]}


def test_internal_marks_of_fastavro_are_removed_from_schemas() -> None:
    hidden = {"__fastavro_parsed": True, "__named_schemas": {"A": record("A", "A")}, **record("B", "int")}
    assert reader(hidden).read(b"\x02") == {"f0": 1}
    assert list(reader(hidden).named) == ["B"]


def test_a_payload_with_surplus_bytes_is_rejected() -> None:
    found = reader(record("A", "string", "int"))
    payload = b"\x0aodrad\x02"
    assert found.read(payload) == {"f0": "odrad", "f1": 1}
    for cut in range(len(payload)):
        with pytest.raises(Undecodable, match="does not match"):
            found.read(payload[:cut])
    with pytest.raises(Undecodable, match="2 of 9 bytes are left over"):
        found.read(payload + b"\x00\x00")
