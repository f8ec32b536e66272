"""Selects the payloads of the batches within some offsets.

Checks the CRC of every batch, including those that are skipped: control batches, and aborted batches if there is an
`AbortedFilter`. Independent of files and brokers.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy

from odradek.base.ids import TopicPartition
from odradek.client.consume import AbortedFilter
from odradek.pipelines.arrow import kernels
from odradek.pipelines.arrow.assembler import Payload
from odradek.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, check_crc
from odradek.records.decode import records_payload
from odradek.records.kernels import INT64_MAX
from odradek.records.record import InvalidRecords

# Length, attributes, two deltas, two lengths and a count take at least one byte each.
_RECORD_BYTES_MIN: Final = 7


def select_payloads(
    data: memoryview,
    headers: Sequence[BatchHeader],
    partition: TopicPartition,
    *,
    from_offset: int,
    to_offset: int,
    aborted: AbortedFilter | None,
    is_checked: bool = False,
) -> Iterator[Payload]:
    """Yield payloads in log order. Adjacent uncompressed batches share one payload."""
    together: list[tuple[int, ...]] = []
    plain = numpy.frombuffer(data.toreadonly(), numpy.uint8) if headers else None
    for header in headers:
        if not is_checked:
            try:
                check_crc(data, header)
            except CorruptBatch as error:
                raise CorruptBatch(f"{partition}: batch at offset {header.base_offset}: {error}") from None
        if header.is_control:
            if aborted is not None:
                aborted.pass_marker(header)
            continue
        if aborted is not None and aborted.drops(header):
            continue
        if header.base_offset >= to_offset or header.last_offset < from_offset:
            continue
        if header.compression == 0:
            start = header.position + HEADER_SIZE
            together.append(_table_row(header, partition, start, header.position + header.size))
            continue
        if together:
            yield Payload(plain, _table(together))
            together = []
        opened = records_payload(data, header)
        yield Payload(_as_array(opened), _table([_table_row(header, partition, 0, opened.nbytes)]))
    if together:
        yield Payload(plain, _table(together))


def _table_row(header: BatchHeader, partition: TopicPartition, start: int, end: int) -> tuple[int, ...]:
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.next_offset > INT64_MAX:
        raise InvalidRecords(
            f"{partition}: a batch has the invalid offsets {header.base_offset} to {header.last_offset}"
        )
    count = header.record_count
    if not 0 <= count <= (end - start) // _RECORD_BYTES_MIN:
        raise InvalidRecords(
            f"{partition}: the batch at offset {header.base_offset} declares {count} records in {end - start} bytes"
        )
    return (
        start,
        end,
        count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        int(header.timestamp_type_is_append),
    )


def _table(rows: list[tuple[int, ...]]) -> Any:
    return numpy.array(rows, numpy.int64).reshape(len(rows), kernels.BATCH_FIELDS)


def _as_array(view: memoryview) -> Any:
    # numpy rejects an empty buffer. Always read-only, so that the kernels are compiled only once.
    return numpy.frombuffer(view.toreadonly() if view.nbytes else b"\0", numpy.uint8)[: view.nbytes]
