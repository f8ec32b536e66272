"""Decodes Protobuf messages with untrusted descriptors. Pure."""

import base64
from importlib import import_module
from typing import Any, Final

from odradek.pipelines.schemas.framing import message_indexes
from odradek.pipelines.schemas.schema import Schema, Undecodable

_WELL_KNOWN: Final = ("any", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "wrappers")
_WELL_KNOWN_FILES: Final = frozenset(f"google/protobuf/{name}.proto" for name in _WELL_KNOWN)


class ProtobufReader:
    """Raises Undecodable if the schema cannot be used."""

    def __init__(self, schema: Schema) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        self.pool: Final = descriptor_pool.DescriptorPool()
        self._class_of: Final = message_factory.GetMessageClass
        try:
            for name in _WELL_KNOWN:
                found = import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
                self.pool.AddSerializedFile(found.serialized_pb)
            for one in schema.references:
                if one.name not in _WELL_KNOWN_FILES:
                    self.pool.Add(_file(descriptor_pb2, one.text, one.name))
            own = _file(descriptor_pb2, schema.text, "schema.proto")
            self.pool.Add(own)
            described = self.pool.FindFileByName(own.name)
            self._messages: Final = [described.message_types_by_name[one.name] for one in own.message_type]
            self._only: Final = self.pool.FindMessageTypeByName(schema.message) if schema.message else None
        # The library may raise anything for an untrusted descriptor.
        except Exception as error:  # noqa: BLE001
            raise Undecodable(f"invalid Protobuf schema: {error}") from None

    def read(self, payload: bytes) -> Any:
        """Decode a payload with a message index, or without one if the schema names its message."""
        if self._only is not None:
            return self._parse(self._only, payload)
        indexes, rest = message_indexes(payload)
        found, among = None, self._messages
        for index in indexes:
            if not 0 <= index < len(among):
                raise Undecodable(f"its Protobuf schema has no message {index}")
            found = among[index]
            among = list(found.nested_types)
        return self._parse(found, rest)

    def as_json(self, message: Any) -> Any:
        """Convert to JSON values with Protobuf's own mapping, but the field names of the schema."""
        from google.protobuf import json_format

        try:
            return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self.pool)
        except Exception as error:  # noqa: BLE001
            raise _unfit(error) from None

    def _parse(self, descriptor: Any, payload: bytes) -> Any:
        try:
            return self._class_of(descriptor).FromString(payload)
        except Exception as error:  # noqa: BLE001
            raise _unfit(error) from None


def _unfit(error: Exception) -> Undecodable:
    return Undecodable(f"does not match its Protobuf schema: {type(error).__name__} {error}")


def _file(descriptors: Any, text: str, name: str) -> Any:
    file = descriptors.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    # Registries omit the name or use the same for every file.
    file.name = name
    return file
