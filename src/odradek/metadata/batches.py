"""Metadata records to the batches of a log or snapshot, and back."""

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.records.batch import BatchHeader
from odradek.records.builder import build_batch
from odradek.records.control import ControlMessage, EndTransactionMarker, decode_control
from odradek.records.decode import decode_batch
from odradek.records.record import Record

from .record_versions import version_to_write
from .records import MetadataRecord, UnreadableRecord, decode, encode


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """What one batch says: metadata records, or what the quorum writes for itself, never both."""

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
    values = (encode(record, version_to_write(record, metadata_version)) for record in records)
    return build_batch(
        (Record(None, value, timestamp_ms) for value in values), base_offset=base_offset, leader_epoch=leader_epoch
    )


def read_metadata_batch(data: bytes, header: BatchHeader) -> MetadataBatch:
    """Raises UnreadableRecord for what no release up to this one has written."""
    records: list[MetadataRecord] = []
    control: list[ControlMessage] = []
    for record in decode_batch(data, header):
        if header.is_control:
            message = decode_control(record)
            if message is not None and not isinstance(message, EndTransactionMarker):
                control.append(message)
        elif record.value is None:
            raise UnreadableRecord(f"the metadata record at offset {record.offset} has no value")
        else:
            records.append(decode(record.value))
    return MetadataBatch(
        last_offset=header.last_offset,
        epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp,
        size_bytes=header.size,
        records=tuple(records),
        control=tuple(control),
    )
