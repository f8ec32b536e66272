"""Decodes Avro values with untrusted schemas. Pure."""

import io
import json
from typing import Any, Final

from odradek.pipelines.schemas.avro_bounds import AvroBounds
from odradek.pipelines.schemas.schema import Schema, Undecodable


class AvroReader:
    """Raises Undecodable if the schema cannot be used."""

    def __init__(self, schema: Schema) -> None:
        import fastavro

        self.named: Final[dict[str, Any]] = {}
        try:
            for one in schema.references:
                fastavro.parse_schema(_load_json(one.text), named_schemas=self.named)
            self.parsed: Final = fastavro.parse_schema(_load_json(schema.text), named_schemas=self.named)
            self._bytes_max: Final = AvroBounds(self.parsed, self.named).payload_bytes_max
        except (ValueError, TypeError, KeyError, RecursionError, fastavro.schema.SchemaParseException) as error:
            raise Undecodable(f"invalid Avro schema: {error}") from None
        self._read: Final = fastavro.schemaless_reader

    def read(self, payload: bytes) -> Any:
        if self._bytes_max is not None and len(payload) > self._bytes_max:
            raise Undecodable(f"its Avro schema is recursive, which limits values to {self._bytes_max:,} bytes")
        data = io.BytesIO(payload)
        try:
            found = self._read(data, self.parsed, None)
        # The C library may raise anything for untrusted bytes.
        except Exception as error:  # noqa: BLE001
            raise Undecodable(f"does not match its Avro schema: {type(error).__name__} {error}") from None
        rest = len(payload) - data.tell()
        if rest:
            raise Undecodable(f"does not match its Avro schema: {rest:,} of {len(payload):,} bytes are left over")
        return found


def _load_json(text: str) -> Any:
    return json.loads(text, object_hook=_without_marks)


def _without_marks(form: dict[str, Any]) -> dict[str, Any]:
    """Remove fastavro's internal marks: it would not validate a schema that has them."""
    return {name: value for name, value in form.items() if not name.startswith("__")}
