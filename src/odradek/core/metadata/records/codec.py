"""Records of the metadata log to bytes and back, in every version that Kafka has written.

A value in the log is the frame version (1), the record's number, its version, each an unsigned varint, and then the
record in Kafka's flexible encoding, which `record_form` takes care of.
"""

from kio.serial.errors import SerialError
from kio.serial.readers import read_unsigned_varint

from odradek.base.record_form import UnreadableRecord, read_record, write_record
from odradek.base.varints import append_unsigned_varint
from odradek.core.metadata.records import brokers, security, settings, topics, transactions
from odradek.core.metadata.records.form import MetadataRecord
from odradek.core.metadata.records.partition_bytes import decode_plain, encode_plain

FRAME_VERSION = 1

RECORD_TYPES: dict[int, type[MetadataRecord]] = {
    record_type.API_KEY: record_type
    for family in (brokers, topics, settings, security, transactions)
    for record_type in vars(family).values()
    if isinstance(record_type, type) and issubclass(record_type, MetadataRecord) and record_type is not MetadataRecord
}


def encode(record: MetadataRecord, version: int | None = None) -> bytes:
    """`version` defaults to the highest; fields that an older one lacks are left out."""
    record_type = type(record)
    chosen = record_type.HIGHEST_VERSION if version is None else version
    if isinstance(record, topics.PartitionRecord) and (plain := encode_plain(record, chosen)) is not None:
        return plain
    out = bytearray()
    append_unsigned_varint(out, FRAME_VERSION)
    append_unsigned_varint(out, record_type.API_KEY)
    append_unsigned_varint(out, chosen)
    write_record(out, record, chosen)
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
        raise UnreadableRecord(f"the metadata record of {len(data)} bytes is truncated") from error
    except ValueError as error:
        raise UnreadableRecord(f"the metadata record of {len(data)} bytes has no type: {error}") from error
    if frame_version != FRAME_VERSION:
        raise UnreadableRecord(f"metadata record with frame version {frame_version}; only {FRAME_VERSION} is known")
    record_type = RECORD_TYPES.get(api_key)
    if record_type is None:
        raise UnreadableRecord(f"metadata record type {api_key} is unknown to this release")
    if version > record_type.HIGHEST_VERSION:
        raise UnreadableRecord(
            f"{record_type.__name__} version {version} was written by a newer release: "
            f"{record_type.HIGHEST_VERSION} is the highest known here"
        )
    return read_record(record_type, version, data, offset)
