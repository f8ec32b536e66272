"""Encodes Arrow columns as records, by partition, without creating Python objects for rows."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from odradek.pipelines.arrow.writing_kernels import RECORD_OVERHEAD_BYTES_MAX, partitions_of_keys, write_records

NO_PARTITION = -1


class Parts(NamedTuple):
    """Keys or values: the position and length of each row's, -1 for null."""

    data: Any
    starts: Any
    lengths: Any


class EncodedRecords(NamedTuple):
    partition: int
    payload: memoryview
    """The records after a batch's header. Valid until the next item is requested."""
    record_count: int
    base_timestamp: int
    max_timestamp: int


def parts_of(column: Any | None, rows: int) -> Parts:
    """Locate the values of a binary or text column. Without a column, all are null."""
    if column is None:
        return Parts(_bytes_of(None), np.zeros(rows, np.int64), np.full(rows, -1, np.int64))
    is_large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offsets_buffer, data_buffer = column.buffers()
    width = np.int64 if is_large else np.int32
    offsets = np.frombuffer(offsets_buffer, width)[column.offset : column.offset + rows + 1].astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return Parts(_bytes_of(data_buffer), offsets[:-1], lengths)


def _bytes_of(buffer: Any | None) -> Any:
    """Always return a read-only array, so that the kernels are compiled only once."""
    found = np.frombuffer(buffer, np.uint8) if buffer else np.empty(0, np.uint8)
    found.flags.writeable = False
    return found


def encode_records(
    keys: Parts, values: Parts, times: Any, partitions: Any, partition_count: int, unkeyed: int, *, bytes_max: int
) -> Iterator[EncodedRecords]:
    """Yield batches of about `bytes_max`, which keep the order of rows per partition. `times` has ms for each row.

    `partitions` has a partition for each row, or NO_PARTITION: then the key determines it, and rows without a key go to
    `unkeyed`. It is modified in place.
    """
    partitions_of_keys(keys.data, keys.starts, keys.lengths, partition_count, partitions)
    partitions[partitions < 0] = unkeyed
    rows = np.argsort(partitions, kind="stable")
    ends = np.cumsum(np.bincount(partitions, minlength=partition_count))
    longest = int((np.maximum(keys.lengths, 0) + np.maximum(values.lengths, 0)).max(initial=0))
    output = np.empty(bytes_max + longest + RECORD_OVERHEAD_BYTES_MAX, np.uint8)
    first = 0
    for partition, end in enumerate(ends.tolist()):
        while first < end:
            size, following = write_records(rows, first, end, bytes_max, *keys, *values, times, output)
            written = times[rows[first:following]]
            payload = memoryview(output.data)[:size]
            yield EncodedRecords(partition, payload, following - first, int(written[0]), int(written.max()))
            first = following
