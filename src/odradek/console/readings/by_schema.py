"""Avro, Protobuf and JSON in the framing of schema registries: a zero, four bytes of a schema's id, the payload.

Pure: schemas come from elsewhere. Both come from strangers: what cannot be decoded is told, and nothing of it can
make the console allocate much more than it was sent.
"""

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_MAGIC: Final = 0
_PREFIX_BYTES: Final = 5
_NESTING_MAX: Final = 100
_DEPTH_MAX: Final = 2000

Decode = Callable[[bytes], Any]


class Undecodable(Exception):
    """The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """As a registry gives it. `references` are those that it names, each after those that it needs itself."""

    type: str
    text: str
    references: Sequence["Reference"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    name: str
    text: str


def schema_id_of(data: bytes) -> int | None:
    """None: the bytes are not framed."""
    if len(data) < _PREFIX_BYTES or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:_PREFIX_BYTES], "big")


def decode_framed(data: bytes, decoders: Mapping[int, Decode]) -> Any:
    """Raises Undecodable."""
    schema_id = schema_id_of(data)
    if schema_id is None:
        raise Undecodable("it does not begin with a schema's id")
    decode = decoders.get(schema_id)
    if decode is None:
        raise Undecodable(f"schema {schema_id} is not known")
    return decode(data[_PREFIX_BYTES:])


def decoder_of(schema: Schema) -> Decode:
    """Raises Undecodable for a schema that cannot be used."""
    match schema.type:
        case "AVRO":
            return _avro(schema)
        case "PROTOBUF":
            return _protobuf(schema)
        case "JSON":
            return _json
    raise Undecodable(f"schemas of type {schema.type} are not known here")


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"it is no JSON: {error}") from None


def _avro(schema: Schema) -> Decode:
    import fastavro

    named: dict[str, Any] = {}
    try:
        for one in schema.references:
            fastavro.parse_schema(json.loads(one.text), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
        shape = _Shape(parsed, named)
    except (ValueError, TypeError, KeyError, RecursionError, fastavro.schema.SchemaParseException) as error:
        raise Undecodable(f"its Avro schema is not understood: {error}") from None
    if shape.depth > _DEPTH_MAX:
        raise Undecodable("its Avro schema is nested too deeply")
    limit = shape.payload_bytes_max

    def decode(payload: bytes) -> Any:
        if limit is not None and len(payload) > limit:
            raise Undecodable(f"its Avro schema names itself, and of such only {limit:,} bytes are decoded")
        try:
            return fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
        # Whatever bytes make of a C library: it is said, and nothing else happens.
        except Exception as error:  # noqa: BLE001
            raise Undecodable(f"it does not fit its Avro schema: {type(error).__name__} {error}") from None

    return decode


class _Shape:
    """How deep values of an Avro schema can nest, and whether a few bytes can stand for many items.

    Readers recurse in C, without a limit: what could end the process is refused before it is read.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._named: Final = named
        self._open: Final[set[str]] = set()
        self._known: Final[dict[str, int]] = {}
        self.is_recursive = False
        self.depth: Final = self._depth(schema)

    @property
    def payload_bytes_max(self) -> int | None:
        """None: any number. Of a schema that names itself every byte may be a round of it."""
        return _DEPTH_MAX // max(1, self.depth) if self.is_recursive else None

    def _depth(self, schema: Any) -> int:
        match schema:
            case str() if schema in self._named:
                return self._depth_of_name(schema)
            case list():
                return 1 + max((self._depth(one) for one in schema), default=0)
            case {"type": "array", "items": items}:
                if self._is_weightless(items, 0):
                    raise Undecodable("its Avro schema has an array of nothing")
                return 1 + self._depth(items)
            case {"type": "map", "values": values}:
                return 1 + self._depth(values)
            case {"type": "record", "name": str(name)}:
                return self._depth_of_name(name, schema)
        return 0

    def _depth_of_name(self, name: str, schema: Any = None) -> int:
        if name in self._open:
            self.is_recursive = True
            return 0
        if name not in self._known:
            self._open.add(name)
            defined = self._named[name] if schema is None else schema
            fields = defined.get("fields", ()) if isinstance(defined, dict) else ()
            self._known[name] = 1 + max((self._depth(one["type"]) for one in fields), default=0)
            self._open.discard(name)
        return self._known[name]

    def _is_weightless(self, schema: Any, depth: int) -> bool:
        """Whether it takes no byte: any number of them can be told in a few."""
        if depth > _NESTING_MAX:
            return True
        match schema:
            case "null" | {"type": "null"} | {"type": "fixed", "size": 0}:
                return True
            case str() if schema in self._named:
                return self._is_weightless(self._named[schema], depth + 1)
            case {"type": "record", "fields": fields}:
                return all(self._is_weightless(one["type"], depth + 1) for one in fields)
        return False


def _protobuf(schema: Schema) -> Decode:
    """The text is a FileDescriptorProto in base64, as registries give it with `format=serialized`."""
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    pool = descriptor_pool.DescriptorPool()
    try:
        for needed in _WELL_KNOWN:
            _add_well_known(pool, needed)
        for one in schema.references:
            pool.Add(_file(descriptor_pb2, one.text, one.name))
        own = _file(descriptor_pb2, schema.text, "schema.proto")
        pool.Add(own)
        described = pool.FindFileByName(own.name)
    # Descriptors of strangers: what the library makes of them is told.
    except Exception as error:  # noqa: BLE001
        raise Undecodable(f"its Protobuf schema is not understood: {error}") from None
    messages = [described.message_types_by_name[one.name] for one in own.message_type]

    def decode(payload: bytes) -> Any:
        indexes, rest = _message_indexes(payload)
        found, among = None, messages
        for index in indexes:
            if not 0 <= index < len(among):
                raise Undecodable(f"its schema has no message number {index}")
            found = among[index]
            among = list(found.nested_types)
        assert found is not None
        try:
            message = message_factory.GetMessageClass(found).FromString(rest)
            return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
        except Exception as error:  # noqa: BLE001
            raise Undecodable(f"it does not fit its Protobuf schema: {type(error).__name__} {error}") from None

    return decode


_WELL_KNOWN: Final = ("any", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "wrappers")


def _add_well_known(pool: Any, name: str) -> None:
    from importlib import import_module

    pool.AddSerializedFile(import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.serialized_pb)


def _file(descriptors: Any, text: str, name: str) -> Any:
    file = descriptors.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    # Registries leave the name out, or call every file the same.
    file.name = name
    return file


def _message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Which message of the schema it is: zigzag varints, a count and so many places; a single 0 means the first."""
    count, at = _varint(payload, 0)
    if not 0 <= count <= _NESTING_MAX:
        raise Undecodable(f"it names a message {count} levels deep")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return indexes or [0], payload[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise Undecodable("it ends before it says which message it is")
