"""Decoding of untrusted Avro and Protobuf values, with a fake schema registry."""

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from odradek.console.queries.messages import Excerpt
from odradek.console.queries.schema_registry import SchemaRegistry
from odradek.console.readings.messages import View, in_a_cell, in_full
from odradek.pipelines.schemas.decoding import decode_framed, decoder_of
from odradek.pipelines.schemas.registry import InvalidRegistryUrl
from odradek.pipelines.schemas.schema import Schema, Undecodable
from tests.schema_registry import FakeRegistry, fake_registry

pytestmark = pytest.mark.needs("fastavro")


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "amount", "type": "int"}, {"name": "note", "type": ["null", "string"]}],
}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def avro(schema: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()


def avro_schema(schema: Any) -> Schema:
    return Schema(type="AVRO", text=json.dumps(schema))


def descriptor() -> bytes:
    """message Outer { message Inner { google.protobuf.Timestamp at = 1; } string name = 1; Inner inner = 2; }"""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="any.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    outer = file.message_type.add(name="Outer")
    inner = outer.nested_type.add(name="Inner")
    inner.field.add(name="at", number=1, type=11, label=1, type_name=".google.protobuf.Timestamp")
    outer.field.add(name="name", number=1, type=9, label=1)
    outer.field.add(name="inner", number=2, type=11, label=1, type_name=".shop.Outer.Inner")
    return file.SerializeToString()


PROTOBUF = Schema(type="PROTOBUF", text=base64.b64encode(descriptor()).decode())


def test_avro_is_shown_as_json_and_undecodable_values_as_text() -> None:
    decoders = {7: decoder_of(avro_schema(ORDER))}
    data = framed(7, avro(ORDER, {"amount": 3, "note": "<b>\x07"}))
    shown = Excerpt(data=data, size=len(data))
    assert in_a_cell(shown, View.SCHEMA, decoders) == '{"amount": 3, "note": "<b>\\u0007"}'
    assert in_full(shown, View.SCHEMA, decoders).startswith('{\n  "amount": 3')
    plain = Excerpt(data=b"text", size=4)
    assert in_a_cell(plain, View.SCHEMA, decoders) == "text"
    assert in_full(plain, View.SCHEMA, decoders).endswith("(not decoded: does not start with a schema ID)")
    for payload, why in ((b"", "does not match"), (b"\x02\x04\xff", "does not match")):
        with pytest.raises(Undecodable, match=why):
            decode_framed(framed(7, payload), decoders)
    with pytest.raises(Undecodable, match="unknown schema 8"):
        decode_framed(framed(8, b""), decoders)


def test_avro_values_without_json_form_are_shown_as_text() -> None:
    schema = {"type": "map", "values": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}}
    data = framed(1, b"\x02\x02a\x02\x64\x00")
    assert in_a_cell(Excerpt(data=data, size=len(data)), View.SCHEMA, {1: decoder_of(avro_schema(schema))}) == (
        '{"a": "1.00"}'
    )


def test_schemas_and_values_that_exhaust_memory_or_stack_are_rejected() -> None:
    decode = decoder_of(avro_schema(LIST))
    assert decode(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    with pytest.raises(Undecodable, match="is recursive, which limits values to 1,000 bytes"):
        decode(b"\x02" * 60_000 + b"\x00")
    for items in ("null", {"type": "fixed", "name": "F", "size": 0}, {"type": "record", "name": "E", "fields": []}):
        with pytest.raises(Undecodable, match="take almost no bytes"):
            decoder_of(avro_schema({"type": "array", "items": items}))
    chain = [{"type": "record", "name": "R0", "fields": [{"name": "f", "type": "int"}]}]
    for number in range(1, 5000):
        fields = [{"name": "f", "type": f"R{number - 1}"}]
        chain.append({"type": "record", "name": f"R{number}", "fields": fields})
    with pytest.raises(Undecodable):
        decoder_of(avro_schema(chain))


@pytest.mark.parametrize("text", ["", "{", '{"type": "nothing"}', "[" * 100_000, '{"type": "record"}'])
def test_invalid_schemas_are_rejected(text: str) -> None:
    with pytest.raises(Undecodable, match=r"invalid (Avro|Protobuf) schema"):
        decoder_of(Schema(type="AVRO", text=text))
    with pytest.raises(Undecodable, match=r"invalid (Avro|Protobuf) schema"):
        decoder_of(Schema(type="PROTOBUF", text=text + "!"))


def test_protobuf_top_level_and_nested_messages_are_decoded() -> None:
    decode = decoder_of(PROTOBUF)
    assert decode(b"\x00" + b"\x0a\x03ann") == {"name": "ann"}
    # Two levels: the first message, and the first one inside it.
    assert decode(b"\x04\x00\x00" + b"\x0a\x02\x08\x05") == {"at": "1970-01-01T00:00:05Z"}
    for payload, why in ((b"", "incomplete"), (b"\x02\x06", "no message 3"), (b"\x00\xff", "does not match")):
        with pytest.raises(Undecodable, match=why):
            decode(payload)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


def test_schemas_are_requested_once_with_their_references(registry: FakeRegistry) -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "line", "type": "Line"}]}
    named = [{"name": "Line", "subject": "a/line", "version": 2}]
    registry.responses = {
        "/base/schemas/ids/1": {"schema": json.dumps(basket), "references": named},
        "/base/subjects/a%2Fline/versions/2": {"schema": json.dumps(line)},
        "/base/schemas/ids/2": {"schema": "syntax …", "schemaType": "PROTOBUF"},
        "/base/schemas/ids/2?format=serialized": {"schema": PROTOBUF.text, "schemaType": "PROTOBUF"},
        "/base/schemas/ids/3": {"schema": "{}", "schemaType": "JSON"},
        "/base/schemas/ids/4": b"<html>",
        "/base/schemas/ids/5": {"references": [{}], "schema": "{}"},
    }
    client = SchemaRegistry(f"http://ann:se%20cret@{registry.address}/base/")
    decoders = client.decoders({1, 2, 3, 4, 5, 6})
    assert decode_framed(framed(1, b"\x08"), decoders) == {"line": {"n": 4}}
    assert decode_framed(framed(2, b"\x00\x0a\x01x"), decoders) == {"name": "x"}
    assert decode_framed(framed(3, b'{"a": 1}'), decoders) == {"a": 1}
    for number, why in ((4, "not return a JSON object"), (5, "invalid response"), (6, "not found")):
        with pytest.raises(Undecodable, match=f"schema {number}: .*{why}"):
            decode_framed(framed(number, b""), decoders)
    count = len(registry.requests)
    client.decoders({1, 2, 3, 4, 5, 6})
    assert len(registry.requests) == count
    expected = base64.b64encode(b"ann:se cret").decode()
    assert {authorization for _, authorization in registry.requests} == {f"Basic {expected}"}


def test_unreachable_schema_registry_is_reported_per_message() -> None:
    decoders = SchemaRegistry("http://127.0.0.1:1").decoders({1})
    with pytest.raises(Undecodable, match=r"schema registry request failed: 127\.0\.0\.1 does not respond"):
        decode_framed(framed(1, b""), decoders)


@pytest.mark.parametrize("address", ["", "registry:8081", "file:///etc/passwd", "http://host:port", "http://"])
def test_invalid_schema_registry_urls_are_rejected(address: str) -> None:
    with pytest.raises(InvalidRegistryUrl):
        SchemaRegistry(address)
