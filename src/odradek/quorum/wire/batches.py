"""Reads and checks the batches of a Fetch response or of the log, and decodes their control records."""

from odradek.core.raft.batch import Batch
from odradek.records.batch import BatchHeader, CorruptBatch, check_crc, parse_batches
from odradek.records.control import ControlMessage, decode_control
from odradek.records.decode import decode_batch
from odradek.records.record import InvalidRecords


class UnknownControl(ControlMessage):
    """A control record of an unknown type. It keeps its offset."""

    __slots__ = ()


def read_batches(data: bytes) -> tuple[Batch, ...]:
    """Whole batches with their bytes; of the last one, Kafka may have sent only the beginning: that is left out.

    Raises CorruptBatch.
    """
    return tuple(_read_batch(data, header) for header in parse_batches(data, allow_partial_tail=True))


def _read_batch(data: bytes, header: BatchHeader) -> Batch:
    check_crc(data, header)
    if header.record_count != header.last_offset_delta + 1 or header.record_count < 1:
        raise CorruptBatch(f"The batch at offset {header.base_offset} has {header.record_count} records")
    return Batch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        epoch=header.leader_epoch,
        control=_read_control(data, header) if header.is_control else (),
        data=data[header.position : header.position + header.size],
    )


def _read_control(data: bytes, header: BatchHeader) -> tuple[ControlMessage, ...]:
    if header.compression:
        raise CorruptBatch(f"The control batch at offset {header.base_offset} is compressed")
    try:
        records = decode_batch(data, header)
        messages = tuple(decode_control(record) for record in records)
    except InvalidRecords as error:
        raise CorruptBatch(f"The control batch at offset {header.base_offset} cannot be read: {error}") from error
    if any(record.offset != offset for offset, record in enumerate(records, header.base_offset)):
        raise CorruptBatch(f"The control batch at offset {header.base_offset} has gaps")
    return tuple(one if isinstance(one, ControlMessage) else UnknownControl() for one in messages)
