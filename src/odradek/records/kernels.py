"""Loops over the records of a batch, which numba can compile and Python can interpret.

They use only integers, flat arrays and tuples of integers, and no intermediate value needs more than 63 bits and a
sign, so that both give the same results. `walk.py` chooses between them; other modules import this one only to read
single records.
"""

from typing import Any

WELL_FORMED = 0
MALFORMED = 1
"""A length, a varint or a count within a record exceeds the record."""
FEWER_RECORDS = 2
"""The bytes end before the declared number of records."""
MORE_BYTES = 3
"""Bytes remain after the declared number of records."""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

# Fields of the result of `check_records`.
STATUS = 0
AT_RECORD = 1
MAX_TIMESTAMP = 2
OFFSETS_CONSECUTIVE = 3
REJECTED_RECORDS = 4
SUMMARY_FIELDS = 5

# Fields of the running totals of `copy_retained`.
FILLED_BYTES = 0
KEPT_RECORDS = 1
KEPT_TOMBSTONES = 2
MAX_TIMESTAMP_DELTA = 3
TOTALS_FIELDS = 4

# The maximum growth of a record with a longer timestamp delta: ten bytes of delta and four of length.
REBASED_GROWTH_BYTES = 14


def read_varint(payload: Any, position: int, end: int) -> tuple[int, int]:
    """A 32-bit integer and the position after it, or -1 if it does not end within five bytes and before `end`.

    The sign is the lowest bit of the first byte; handling it separately leaves 31 bits for the rest.
    """
    if position >= end:
        return 0, -1
    byte = int(payload[position])
    position += 1
    negative = byte & 1
    value = (byte & 0x7F) >> 1
    shift = 6
    while byte & 0x80:
        if position >= end or shift > 27:
            return 0, -1
        byte = int(payload[position])
        position += 1
        # Only four bits of a fifth byte count, like in Java, where the others overflow.
        value |= (byte & (0x0F if shift == 27 else 0x7F)) << shift
        shift += 7
    return (-value - 1 if negative else value), position


def read_varlong(payload: Any, position: int, end: int) -> tuple[int, int]:
    """A 64-bit integer, like `read_varint`: up to ten bytes, and only the lowest bit of the last."""
    if position >= end:
        return 0, -1
    byte = int(payload[position])
    position += 1
    negative = byte & 1
    value = (byte & 0x7F) >> 1
    shift = 6
    while byte & 0x80:
        if position >= end or shift > 62:
            return 0, -1
        byte = int(payload[position])
        position += 1
        value |= (byte & (0x01 if shift == 62 else 0x7F)) << shift
        shift += 7
    return (-value - 1 if negative else value), position


def skip_headers(payload: Any, position: int, end: int) -> int:
    """The position after a record's headers, or -1."""
    count, position = read_varint(payload, position, end)
    if position < 0 or count < 0 or count > end - position:
        return -1
    for _ in range(count):
        length, position = read_varint(payload, position, end)
        if position < 0 or length < 0 or length > end - position:
            return -1
        position += length
        length, position = read_varint(payload, position, end)
        if position < 0 or length > end - position:
            return -1
        if length > 0:
            position += length
    return position


def read_record(payload: Any, position: int, size: int) -> tuple[int, int, int, int, int, int, int, int]:
    """One record: its end, timestamp delta, offset delta, positions of key and value, and start of the headers.

    A null key or value has length -1. The end is -1 if the record is malformed, which is checked up to its last byte.
    """
    length, position = read_varint(payload, position, size)
    if position < 0 or length < 1 or length > size - position:
        return -1, 0, 0, 0, 0, 0, 0, 0
    end = position + length
    timestamp_delta, position = read_varlong(payload, position + 1, end)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0
    offset_delta, position = read_varint(payload, position, end)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0
    key_length, key_start = read_varint(payload, position, end)
    if key_start < 0 or key_length > end - key_start:
        return -1, 0, 0, 0, 0, 0, 0, 0
    key_length = max(key_length, -1)
    value_length, value_start = read_varint(payload, key_start + max(key_length, 0), end)
    if value_start < 0 or value_length > end - value_start:
        return -1, 0, 0, 0, 0, 0, 0, 0
    value_length = max(value_length, -1)
    headers_start = value_start + max(value_length, 0)
    if skip_headers(payload, headers_start, end) != end:
        return -1, 0, 0, 0, 0, 0, 0, 0
    return end, timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, headers_start


def add_saturating(base: int, delta: int) -> int:
    """Clamps timestamps at the ends of the range; only malicious batches have them."""
    if delta > 0 and base > INT64_MAX - delta:
        return INT64_MAX
    if delta < 0 and base < INT64_MIN - delta:
        return INT64_MIN
    return base + delta


def check_records(
    payload: Any,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    keys_required: bool,
    summary: Any,
) -> None:
    """Walks a whole batch and fills in the summary.

    A record is rejected if it lacks a required key, or if its timestamp (-1 is none) is out of bounds.
    """
    size = len(payload)
    position = 0
    max_timestamp = -1
    consecutive = 1
    rejected = 0
    status = WELL_FORMED
    index = 0
    while index < count:
        if position == size:
            status = FEWER_RECORDS
            break
        end, timestamp_delta, offset_delta, _, key_length, _, _, _ = read_record(payload, position, size)
        if end < 0:
            status = MALFORMED
            break
        position = end
        timestamp = add_saturating(base_timestamp, timestamp_delta)
        max_timestamp = max(max_timestamp, timestamp)
        if offset_delta != index:
            consecutive = 0
        if (keys_required and key_length < 0) or (timestamp != -1 and (timestamp < earliest or timestamp > latest)):
            rejected += 1
        index += 1
    if status == WELL_FORMED and position != size:
        status = MORE_BYTES
    summary[STATUS] = status
    summary[AT_RECORD] = index
    summary[MAX_TIMESTAMP] = max_timestamp
    summary[OFFSETS_CONSECUTIVE] = consecutive
    summary[REJECTED_RECORDS] = rejected


def index_records(
    payload: Any,
    position: int,
    limit: int,
    ends: Any,
    timestamp_deltas: Any,
    offset_deltas: Any,
    key_starts: Any,
    key_lengths: Any,
    value_lengths: Any,
) -> int:
    """Fills the columns with up to `limit` records from `position` on; returns their number, or -1 if one is
    malformed."""
    size = len(payload)
    index = 0
    while index < limit and position < size:
        end, timestamp_delta, offset_delta, key_start, key_length, _, value_length, _ = read_record(
            payload, position, size
        )
        if end < 0:
            return -1
        ends[index] = end
        timestamp_deltas[index] = timestamp_delta
        offset_deltas[index] = offset_delta
        key_starts[index] = key_start
        key_lengths[index] = key_length
        value_lengths[index] = value_length
        position = end
        index += 1
    return index


def copy_retained(
    payload: Any,
    start: int,
    count: int,
    ends: Any,
    timestamp_deltas: Any,
    value_lengths: Any,
    retained: Any,
    output: Any,
    totals: Any,
) -> None:
    """Appends the records marked in `retained` to the output, and counts them."""
    filled = totals[FILLED_BYTES]
    kept = totals[KEPT_RECORDS]
    tombstones = totals[KEPT_TOMBSTONES]
    max_delta = totals[MAX_TIMESTAMP_DELTA]
    run_start = -1
    position = start
    for index in range(count):
        if retained[index]:
            if run_start < 0:
                run_start = position
            if value_lengths[index] < 0:
                tombstones += 1
            if kept == 0 or timestamp_deltas[index] > max_delta:
                max_delta = timestamp_deltas[index]
            kept += 1
        elif run_start >= 0:
            output[filled : filled + position - run_start] = payload[run_start:position]
            filled += position - run_start
            run_start = -1
        position = ends[index]
    if run_start >= 0:
        output[filled : filled + position - run_start] = payload[run_start:position]
        filled += position - run_start
    totals[FILLED_BYTES] = filled
    totals[KEPT_RECORDS] = kept
    totals[KEPT_TOMBSTONES] = tombstones
    totals[MAX_TIMESTAMP_DELTA] = max_delta


def put_varint(output: Any, position: int, value: int) -> int:
    """Writes an integer of either width and returns the position after it."""
    negative = 1 if value < 0 else 0
    pending = -value - 1 if negative else value
    byte = ((pending & 0x3F) << 1) | negative
    pending >>= 6
    while pending:
        output[position] = byte | 0x80
        position += 1
        byte = pending & 0x7F
        pending >>= 7
    output[position] = byte
    return position + 1


def varint_bytes(value: int) -> int:
    pending = (-value - 1 if value < 0 else value) >> 6
    size = 1
    while pending:
        size += 1
        pending >>= 7
    return size


def rebase_records(payload: Any, count: int, shift: int, output: Any) -> int:
    """Copies well-formed records with `shift` subtracted from their timestamp deltas; returns the bytes written."""
    size = len(payload)
    position = 0
    filled = 0
    for _ in range(count):
        length, body = read_varint(payload, position, size)
        end = body + length
        delta, rest = read_varlong(payload, body + 1, end)
        delta = add_saturating(delta, -shift)
        filled = put_varint(output, filled, 1 + varint_bytes(delta) + end - rest)
        output[filled] = payload[body]
        filled = put_varint(output, filled + 1, delta)
        output[filled : filled + end - rest] = payload[rest:end]
        filled += end - rest
        position = end
    return filled


# Functions that the kernels call: numba has to compile these first.
INNER_KERNELS = (read_varint, read_varlong, skip_headers, read_record, add_saturating, put_varint, varint_bytes)
