"""Decodes records by their schemas for display. Pure.

Schemas and records are untrusted: decoding must not allocate much more memory than the size of the input.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from odradek.pipelines.schemas.avro import AvroReader
from odradek.pipelines.schemas.framing import payload_of, schema_id_of
from odradek.pipelines.schemas.protobuf import ProtobufReader
from odradek.pipelines.schemas.schema import AVRO, JSON, PROTOBUF, Schema, Undecodable

Decode = Callable[[bytes], Any]


def decode_framed(data: bytes, decoders: Mapping[int, Decode]) -> Any:
    """Raises Undecodable."""
    schema_id = schema_id_of(data)
    if schema_id is None:
        raise Undecodable("does not start with a schema ID")
    decode = decoders.get(schema_id)
    if decode is None:
        raise Undecodable(f"unknown schema {schema_id}")
    return decode(payload_of(data))


def decoder_of(schema: Schema) -> Decode:
    """Return a decoder for the schema. Raises Undecodable if the schema cannot be used."""
    if schema.type == AVRO:
        return AvroReader(schema).read
    if schema.type == PROTOBUF:
        reader = ProtobufReader(schema)
        return lambda payload: reader.as_json(reader.read(payload))
    if schema.type == JSON:
        return _json
    raise Undecodable(f"schema type {schema.type} is not supported")


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"invalid JSON: {error}") from None
