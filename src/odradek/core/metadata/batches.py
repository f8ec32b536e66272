"""Encodes metadata records into batches of a log or snapshot, and decodes them."""

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.core.metadata.record_versions import version_to_write
from odradek.core.metadata.records import MetadataRecord, UnreadableRecord, decode, encode
from odradek.records.batch import BatchHeader
from odradek.records.control import ControlMessage, EndTransactionMarker, decode_control
from odradek.records.decode import decode_batch
from odradek.records.values import build_values_batch, read_values


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """The contents of one batch: metadata records or control records, never both."""

    last_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int
    records: tuple[MetadataRecord, ...] = ()
    control: tuple[ControlMessage, ...] = ()


def build_metadata_batch(
    records: Sequence[MetadataRecord],
    *,
    metadata_version: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    return build_values_batch(
        (encode(record, version_to_write(record, metadata_version)) for record in records),
        timestamp=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def read_metadata_batch(data: bytes, header: BatchHeader) -> MetadataBatch:
    """Raises UnreadableRecord for records that this release does not know."""
    records: tuple[MetadataRecord, ...] = ()
    control: tuple[ControlMessage, ...] = ()
    if header.is_control:
        messages = map(decode_control, decode_batch(data, header))
        control = tuple(one for one in messages if one is not None and not isinstance(one, EndTransactionMarker))
    else:
        records = tuple(_decode_record(value, header) for value in read_values(data, header))
    return MetadataBatch(
        last_offset=header.last_offset,
        epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp,
        size_bytes=header.size,
        records=records,
        control=control,
    )


def _decode_record(value: bytes | None, header: BatchHeader) -> MetadataRecord:
    if value is None:
        raise UnreadableRecord(f"a metadata record of the batch at offset {header.base_offset} has no value")
    return decode(value)
