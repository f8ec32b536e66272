"""Builds batches from the records of a result."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.record_form import UnwritableRecord
from odradek.broker.coordinators.shard import Producer
from odradek.records.batch import HEADER_SIZE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from odradek.records.builder import build_batch, frame_records, write_record
from odradek.records.record import Record

# The lengths, deltas and flags around a key and a value.
_RECORD_OVERHEAD_MAX = 26


class BatchWriter:
    def __init__(self, encode: Callable[[Any], tuple[bytes, bytes | None]], compression: int) -> None:
        self._encode = encode
        self._compression = compression

    def batches(
        self, records: Sequence[Any], *, is_atomic: bool, producer: Producer | None, max_bytes: int, now_ms: int
    ) -> list[tuple[bytearray, Sequence[Any]]]:
        """Each batch with its records. Raises KafkaError if atomic records do not fit one batch, or if a record cannot
        be encoded."""
        encoded = self.encode(records, now_ms)
        if is_atomic or producer is not None:
            return [(self.build(encoded, producer, max_bytes), records)]
        return [
            (self.build(encoded[start:end], producer, max_bytes), records[start:end])
            for start, end in _runs(encoded, max_bytes)
        ]

    def encode(self, records: Sequence[Any], now_ms: int) -> list[Record]:
        """Raises KafkaError."""
        try:
            return [Record(*self._encode(record), now_ms) for record in records]
        except UnwritableRecord as error:
            raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error

    def write(self, payload: bytearray, records: Sequence[Any], first_offset_delta: int, now_ms: int) -> None:
        """Appends records to the payload of a batch that `frame` completes. Raises UnwritableRecord."""
        encode = self._encode
        for offset_delta, record in enumerate(records, first_offset_delta):
            key, value = encode(record)
            write_record(payload, Record(key, value, now_ms), offset_delta, 0)

    def frame(self, payload: bytearray, count: int, now_ms: int, max_bytes: int) -> bytearray:
        """The batch with this payload, outside of transactions. Raises KafkaError."""
        return _check_size(frame_records(payload, count, now_ms, compression=self._compression), count, max_bytes)

    def build(self, records: Sequence[Record], producer: Producer | None, max_bytes: int) -> bytearray:
        """Raises KafkaError."""
        data = build_batch(
            records,
            compression=self._compression,
            producer_id=NO_PRODUCER_ID if producer is None else producer.id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
            # Kafka writes 0 for a producer, and no broker checks it: a coordinator's batches have no sequence.
            base_sequence=NO_SEQUENCE if producer is None else 0,
            is_transactional=producer is not None,
        )
        return _check_size(data, len(records), max_bytes)


def _check_size(data: bytes, count: int, max_bytes: int) -> bytearray:
    if len(data) > max_bytes:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"a batch of {count} records has {len(data)} bytes, but max.message.bytes is {max_bytes}",
        )
    return bytearray(data)


def size_max(record: Record) -> int:
    """Upper bound of its size in an uncompressed batch."""
    return _RECORD_OVERHEAD_MAX + len(record.key or b"") + len(record.value or b"")


def _runs(records: Sequence[Record], max_bytes: int) -> Iterator[tuple[int, int]]:
    """Start and end indexes of batches that fit into `max_bytes`."""
    start, size = 0, HEADER_SIZE
    for index, record in enumerate(records):
        needed = size_max(record)
        if index > start and size + needed > max_bytes:
            yield start, index
            start, size = index, HEADER_SIZE
        size += needed
    yield start, len(records)
