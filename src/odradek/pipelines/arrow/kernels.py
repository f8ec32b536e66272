"""Compiled loops that copy record batches to the buffers of Arrow columns.

`index_rows` walks the records once to locate their fields; then each selected column is copied separately. The loops
use flat arrays only. Imports numba.
"""

from typing import Any

import numba
from numba.extending import register_jitable

from odradek.pipelines.arrow.copying import copy_bytes
from odradek.records.kernels import INNER_KERNELS, add_saturating, read_record, read_varint

for _inner in INNER_KERNELS:
    register_jitable(_inner)

_compiled = numba.njit(cache=True, nogil=True)

# Fields of a batch's row in the `batches` table.
POSITION = 0
END = 1
RECORDS = 2
BASE_OFFSET = 3
LAST_OFFSET_DELTA = 4
BASE_TIMESTAMP = 5
MAX_TIMESTAMP = 6
IS_APPEND_TIME = 7
BATCH_FIELDS = 8

# Fields of the cursor: the walk may pause in the middle of a batch.
AT_BATCH = 0
AT_RECORD = 1
AT_POSITION = 2
AT_DELTA = 3
FILLED_ROWS = 4
FILLED_BYTES = 5
CURSOR_FIELDS = 6

DONE = 0
FULL = 1
MALFORMED = 2
MORE_BYTES = 3
OFFSETS_DISORDERED = 4


@_compiled
def index_rows(
    data: Any,
    batches: Any,
    cursor: Any,
    rows_max: int,
    bytes_max: int,
    from_offset: int,
    to_offset: int,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    key_starts: Any,
    key_lengths: Any,
    value_starts: Any,
    value_lengths: Any,
    header_starts: Any,
) -> int:
    """Locate the records within the offsets, up to the row that reaches `rows_max` or `bytes_max`.

    `bytes_max` counts whole records, even if only some columns are selected.
    """
    row = cursor[FILLED_ROWS]
    filled = cursor[FILLED_BYTES]
    batch = cursor[AT_BATCH]
    index = cursor[AT_RECORD]
    position = cursor[AT_POSITION]
    delta = cursor[AT_DELTA]
    status = DONE
    while batch < len(batches):
        if index == 0:
            position = batches[batch, POSITION]
            delta = -1
        end = batches[batch, END]
        count = batches[batch, RECORDS]
        base_offset = batches[batch, BASE_OFFSET]
        base_timestamp = batches[batch, BASE_TIMESTAMP]
        append_time = batches[batch, IS_APPEND_TIME]
        while index < count:
            if row >= rows_max or filled >= bytes_max:
                status = FULL
                break
            (
                record_end,
                timestamp_delta,
                offset_delta,
                key_start,
                key_length,
                value_start,
                value_length,
                headers_start,
            ) = read_record(data, position, end)
            if record_end < 0:
                status = MALFORMED
                break
            if offset_delta <= delta or offset_delta > batches[batch, LAST_OFFSET_DELTA]:
                status = OFFSETS_DISORDERED
                break
            delta = offset_delta
            index += 1
            offset = base_offset + offset_delta
            if from_offset <= offset < to_offset:
                offsets[row] = offset
                timestamps[row] = (
                    batches[batch, MAX_TIMESTAMP] if append_time else add_saturating(base_timestamp, timestamp_delta)
                )
                timestamp_types[row] = append_time
                key_starts[row] = key_start
                key_lengths[row] = key_length
                value_starts[row] = value_start
                value_lengths[row] = value_length
                header_starts[row] = headers_start
                filled += record_end - position
                row += 1
            position = record_end
        if status == DONE and position != end:
            status = MORE_BYTES
        if status != DONE:
            break
        batch += 1
        index = 0
    cursor[AT_BATCH] = batch
    cursor[AT_RECORD] = index
    cursor[AT_POSITION] = position
    cursor[AT_DELTA] = delta
    cursor[FILLED_ROWS] = row
    cursor[FILLED_BYTES] = filled
    return status


@_compiled
def copy_parts(data: Any, starts: Any, lengths: Any, first: int, last: int, ends: Any, output: Any, filled: int) -> int:
    """Append keys or values of the rows from `first` to `last` to the output, and return its new length.

    `ends` is an Arrow offsets buffer: entry i + 1 belongs to row i. Null has length -1.
    """
    for row in range(first, last):
        length = lengths[row]
        if length > 0:
            copy_bytes(output, filled, data, starts[row], length)
            filled += length
        ends[row + 1] = filled
    return filled


@_compiled
def measure_headers(data: Any, header_starts: Any, first: int, last: int, counts: Any, totals: Any) -> None:
    """Count the headers of every row, and add up headers, name bytes and value bytes in `totals`."""
    size = len(data)
    for row in range(first, last):
        count, position = read_varint(data, header_starts[row], size)
        counts[row] = count
        totals[0] += count
        for _ in range(count):
            length, position = read_varint(data, position, size)
            totals[1] += length
            length, position = read_varint(data, position + length, size)
            if length > 0:
                totals[2] += length
                position += length


@_compiled
def copy_headers(
    data: Any,
    header_starts: Any,
    first: int,
    last: int,
    name_ends: Any,
    names: Any,
    value_ends: Any,
    values: Any,
    value_is_there: Any,
    at: int,
) -> int:
    """Copy the headers of the rows, starting with entry `at`, and return the next entry."""
    size = len(data)
    named = name_ends[at]
    valued = value_ends[at]
    for row in range(first, last):
        count, position = read_varint(data, header_starts[row], size)
        for _ in range(count):
            length, position = read_varint(data, position, size)
            copy_bytes(names, named, data, position, length)
            named += length
            length, position = read_varint(data, position + length, size)
            value_is_there[at] = length >= 0
            if length > 0:
                copy_bytes(values, valued, data, position, length)
                valued += length
                position += length
            at += 1
            name_ends[at] = named
            value_ends[at] = valued
    return at
