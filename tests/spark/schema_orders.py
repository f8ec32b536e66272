"""Orders as records of Avro and of Protobuf, by schemas in files."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, json_format

from odradek.pipelines.jobs.schema_files import read_schema_file
from odradek.pipelines.schemas.protobuf import ProtobufReader

SCHEMA = "id bigint, price decimal(8,2), at timestamp, tags array<string>"
AVRO_ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Orders:
    """Of Avro and of Protobuf, with their schemas in a directory."""

    def __init__(self, directory: Path) -> None:
        found = descriptor_pb2.FileDescriptorSet()
        self.file = found.file.add(name="order.proto", package="shop", syntax="proto3")
        self.file.dependency.append("google/protobuf/timestamp.proto")
        self.file.message_type.add(name="Other")
        fields = self.file.message_type.add(name="Order").field
        for number, (name, kind, label) in enumerate([("id", 3, 1), ("price", 9, 1), ("tags", 9, 3)], 1):
            fields.add(name=name, number=number, type=kind, label=label)  # type: ignore[arg-type]
        fields.add(name="at", number=4, type=11, label=1, type_name=".google.protobuf.Timestamp")
        (directory / "order.desc").write_bytes(found.SerializeToString())
        (directory / "order.avsc").write_text(json.dumps(AVRO_ORDER))
        self._schema = read_schema_file(directory / "order.desc", message="shop.Order", is_framed=False)

    def avro(self, number: int) -> bytes:
        written = io.BytesIO()
        order = {"id": number, "price": Decimal(number) / 4, "at": NOON, "tags": ["a", "b"]}
        fastavro.schemaless_writer(written, fastavro.parse_schema(AVRO_ORDER), order)
        return written.getvalue()

    def protobuf(self, number: int) -> bytes:
        form = {"id": number, "price": str(Decimal(number) / 4), "at": NOON.isoformat(), "tags": ["a", "b"]}
        made = json_format.ParseDict(form, ProtobufReader(self._schema).read(b""))
        return bytes(made.SerializeToString())

    def row(self, number: int) -> dict[str, Any]:
        return {"id": number, "price": Decimal(number) / 4, "at": NOON, "tags": ["a", "b"]}
