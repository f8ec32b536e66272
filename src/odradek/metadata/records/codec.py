"""Records of the metadata log to bytes and back, in every version that Kafka has written.

A value in the log is the frame version (1), the record's number, its version, each an unsigned varint, and then the
record in Kafka's flexible encoding, which kio's readers and `message_writer` take care of.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, make_dataclass
from functools import cache
from typing import Any

from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.serial.readers import read_unsigned_varint
from kio.static.constants import EntityType
from kio.static.primitive import i16

from odradek.base.message_writer import Writer, message_writer, write_unsigned_varint

from . import brokers, security, settings, topics, transactions
from .form import MetadataRecord
from .partition_bytes import decode_plain, encode_plain

FRAME_VERSION = 1

RECORD_TYPES: dict[int, type[MetadataRecord]] = {
    record_type.API_KEY: record_type
    for family in (brokers, topics, settings, security, transactions)
    for record_type in vars(family).values()
    if isinstance(record_type, type) and issubclass(record_type, MetadataRecord) and record_type is not MetadataRecord
}


class UnreadableRecord(ValueError):
    """The bytes are no metadata record, or one that this release does not know."""


def encode(record: MetadataRecord, version: int | None = None) -> bytes:
    """`version` defaults to the highest; fields that an older one lacks are left out."""
    record_type = type(record)
    chosen = record_type.HIGHEST_VERSION if version is None else version
    if isinstance(record, topics.PartitionRecord) and (plain := encode_plain(record, chosen)) is not None:
        return plain
    out = bytearray()
    write_unsigned_varint(out, FRAME_VERSION)
    write_unsigned_varint(out, record_type.API_KEY)
    write_unsigned_varint(out, chosen)
    _writer(record_type.API_KEY, chosen)(out, record)
    return bytes(out)


def decode(data: bytes) -> MetadataRecord:
    if (plain := decode_plain(data)) is not None:
        return plain
    try:
        frame_version, size = read_unsigned_varint(data, 0)
        offset = size
        api_key, size = read_unsigned_varint(data, offset)
        offset += size
        version, size = read_unsigned_varint(data, offset)
        offset += size
    except SerialError as error:
        raise UnreadableRecord(f"a metadata record of {len(data)} bytes ends inside its frame") from error
    if frame_version != FRAME_VERSION:
        raise UnreadableRecord(f"metadata record with frame version {frame_version}; only {FRAME_VERSION} is known")
    record_type = RECORD_TYPES.get(api_key)
    if record_type is None:
        raise UnreadableRecord(f"metadata record number {api_key} is unknown to this release")
    if version > record_type.HIGHEST_VERSION:
        raise UnreadableRecord(
            f"{record_type.__name__} version {version} was written by a newer release: "
            f"{record_type.HIGHEST_VERSION} is the highest known here"
        )
    try:
        return _reader(api_key, version)(data, offset)
    except (SerialError, KeyError, ValueError) as error:
        # kio knows no tagged fields but its own, and answers to others with a KeyError.
        raise UnreadableRecord(f"{record_type.__name__} of {len(data)} bytes cannot be read: {error}") from error


@cache
def _writer(api_key: int, version: int) -> Writer:
    # Fields are taken by name: a record of the newest shape serves every version's list of fields.
    return message_writer(_versioned_type(api_key, version))


@cache
def _reader(api_key: int, version: int) -> Callable[[bytes, int], MetadataRecord]:
    record_type = RECORD_TYPES[api_key]
    read = entity_reader(_versioned_type(api_key, version))
    if version == record_type.HIGHEST_VERSION:
        return lambda data, offset: read(data, offset)[0]
    names = [known.name for known in _fields_of(record_type, version)]

    def read_older(data: bytes, offset: int) -> MetadataRecord:
        older = read(data, offset)[0]
        return record_type(**{name: getattr(older, name) for name in names})

    return read_older


def _versioned_type(api_key: int, version: int) -> Any:
    """The class with only those fields that `version` has, for kio to derive its codec from."""
    record_type = RECORD_TYPES[api_key]
    if version == record_type.HIGHEST_VERSION:
        return record_type
    return make_dataclass(
        f"{record_type.__name__}V{version}",
        [(known.name, known.type, _copy_of(known)) for known in _fields_of(record_type, version)],
        frozen=True,
        slots=True,
        kw_only=True,
        namespace={"__type__": EntityType.data, "__version__": i16(version), "__flexible__": True},
    )


def _fields_of(record_type: Any, version: int) -> list[Field[Any]]:
    return [known for known in fields(record_type) if known.metadata.get("since", 0) <= version]


def _copy_of(known: Field[Any]) -> Any:
    if known.default is MISSING:
        return field(metadata=known.metadata)
    return field(default=known.default, metadata=known.metadata)
